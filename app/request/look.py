"""How an embed looks on someone else's page: light or dark, the accent, and what is left out.

What is not to be seen is named one by one: a control by its setting, all else by the names of the tables below. The
look is a stylesheet of its own, so that the strict content policy stands and whatever HTMX puts in place later obeys.

An accent is given by a name or as a hex colour. Either way it is only a wish: it is darkened on light paper and
lightened on dark paper until text in it can be read (a contrast of 4.5 at least, WCAG 2.2 §1.4.3).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import QueryParams

from app.request.paths import link
from app.server.prefix import AppPath
from model.errors import SettingError

Theme = Literal["auto", "light", "dark"]
Rgb = tuple[int, ...]  # red, green, blue, each 0 to 255

PATH = AppPath("/embed/look.css")
THEMES: tuple[Theme, ...] = ("auto", "light", "dark")
ACCENTS = {
    "plum": "8c1d5c", "red": "a11d1d", "amber": "8a5a00", "green": "2f6b1f", "teal": "0f6a66", "blue": "1f5fae",
    "violet": "5f36a5", "grey": "5a5d63",
}  # fmt: skip
HEX = re.compile(r"#?([0-9a-fA-F]{6}|[0-9a-fA-F]{3})")

# What can be left out of any embed, of an explanation, of a table of numbers and of a live part; as CSS selectors.
TEXT = {"text-line": ".embed-text"}
WHY = {
    "trail": ".trail", "address": ".why .address", "where": ".why .where", "plain": ".why > .plain",
    "tabs": ".why .tabs", "formula": ".why .formula", "chart": ".why > figure",
    "worked": ".why table.steps, .why table.parts", "terms": ".why .listed",
    "check": ".why .check:not(.fault, .end)", "nudge": ".why .nudge", "notes": ".why > .note",
    "ends": ".why > .ends", "onward": ".why .onward",
}  # fmt: skip
VALUES = {
    "stages": ".stages", "overview": ".whole", "top": ".values .top", "pages": ".pages-of",
    "tools": ".values .tools:not(.pages-of)", "keys": ".keys", "why": "#why",
}  # fmt: skip
PART = {
    "title": ".live-part > header", "controls": ".live-part .controls", "options": ".live-part .options",
    "captions": ".live-part .caption", "says": ".live-part .says", "hint": ".why.idle",
}  # fmt: skip
RUN_FIELDS = ("text", "target", "eta", "optimizer", "steps")  # of the run, where a part's form shows them
SECTIONS = TEXT | WHY | VALUES | PART

# The papers that the accent is written on (base.css): the page and what is raised.
LIGHT: tuple[Rgb, ...] = ((0xFD, 0xFD, 0xFB), (0xF3, 0xF3, 0xEE))
DARK: tuple[Rgb, ...] = ((0x14, 0x16, 0x1A), (0x1E, 0x21, 0x27))
WASH = 0.1  # how much of the accent tints the paper under what is marked
CONTRAST = 4.5
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


@dataclass(frozen=True)
class Look:
    """`accent` is a name of ACCENTS or six hex digits; "" the site's own. `hide` are names of what is left out."""

    theme: Theme = "auto"
    accent: str = ""
    hide: tuple[str, ...] = ()

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """As parameters of a URL; those at their defaults are left out."""
        pairs = (("theme", self.theme if self.theme != "auto" else ""), ("accent", self.accent))
        return tuple(pair for pair in (*pairs, ("hide", ",".join(self.hide))) if pair[1])

    @property
    def url(self) -> str:
        """Where its stylesheet is; "" where it needs none."""
        pairs = [pair for pair in self.query if pair[0] != "theme"]
        return link(PATH, pairs) if pairs else ""

    @property
    def css(self) -> str:
        """The stylesheet."""
        rules = [_accent(self.accent)] if self.accent else []
        if self.hide:
            rules.append(", ".join(map(selector, self.hide)) + " { display: none; }")
        return "".join(f"{rule}\n" for rule in rules)


def selector(name: str) -> str:
    """What a name of `hide` means: a part of the page, or the control of one setting."""
    return SECTIONS.get(name) or f'.controls label:has([name="{name}"])'


def look_of(query: QueryParams, can_hide: Collection[str]) -> Look:
    """The look that a query asks for; `hide` may be repeated or hold names with commas between.

    Raises SettingError, which names the parameter.
    """
    theme = query.get("theme", "") or "auto"
    if theme not in THEMES:
        raise SettingError("theme", f"The theme is “{theme[:40]}”.", f"Write theme={', theme='.join(THEMES)}.")
    asked = [name.strip() for given in query.getlist("hide") for name in given.split(",") if name.strip()]
    for name in asked:
        if name not in can_hide:
            known = f"Known here are {', '.join(can_hide)}." if can_hide else ""
            raise SettingError("hide", f"There is no “{name[:40]}” to hide.", known)
    return Look(theme, accent_of(query.get("accent", "")), tuple(name for name in can_hide if name in asked))


def readable_look(query: QueryParams, can_hide: Collection[str]) -> tuple[Look, dict[str, SettingError]]:
    """The look as far as it can be read, and what is wrong with the other parameters, by their names."""
    pairs, wrong = query.multi_items(), dict[str, SettingError]()
    while True:
        try:
            return look_of(QueryParams(pairs), can_hide), wrong
        except SettingError as error:
            wrong[error.part] = error
            pairs = [pair for pair in pairs if pair[0] != error.part]


def accent_of(given: str) -> str:
    """A name of ACCENTS or six small hex digits. Raises SettingError."""
    given = given.strip()
    if not given or given in ACCENTS:
        return given
    match = HEX.fullmatch(given)
    if match is None:
        hint = f"Write one of {', '.join(ACCENTS)}, or a hex colour: 1f5fae."
        raise SettingError("accent", f"The accent is “{given[:40]}”.", hint)
    digits = match[1].lower()
    return digits if len(digits) == 6 else "".join(2 * c for c in digits)


def _accent(accent: str) -> str:
    """The rule that sets an accent, checked by `accent_of`, for both themes."""
    rgb = tuple(bytes.fromhex(ACCENTS.get(accent, accent)))
    light, dark = readable(rgb, LIGHT, BLACK), readable(rgb, DARK, WHITE)
    washes = mixed(light, LIGHT[0], WASH), mixed(dark, DARK[0], 2 * WASH)
    pair = "--{}: light-dark({}, {});".format
    return f":root {{ {pair('accent', _hex(light), _hex(dark))} {pair('wash', *map(_hex, washes))} }}"


def readable(color: Rgb, papers: tuple[Rgb, ...], toward: Rgb) -> Rgb:
    """The colour, moved toward black or white until it can be read on the papers and on its own wash."""
    share = 2 * WASH if toward == WHITE else WASH
    for step in range(51):
        moved = mixed(toward, color, step / 50)
        if all(contrast(moved, paper) >= CONTRAST for paper in (*papers, mixed(moved, papers[0], share))):
            return moved
    return toward


def contrast(one: Rgb, other: Rgb) -> float:
    """The contrast ratio of two colours, from 1 to 21 (WCAG 2.2, "contrast ratio")."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def mixed(color: Rgb, ground: Rgb, share: float) -> Rgb:
    """So much of a colour on a ground."""
    return tuple(round(g + (c - g) * share) for c, g in zip(color, ground, strict=True))


def _luminance(color: Rgb) -> float:
    """Relative luminance (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (channel / 255 for channel in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _hex(color: Rgb) -> str:
    return f"#{bytes(color).hex()}"
