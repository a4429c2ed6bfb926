"""A page of this site as others see it: its name, its picture, and how it is framed elsewhere.

Pages make a `Shared` of what they show; `/share`, `/oembed` and the cards in a page's head all read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote, urlencode, urlsplit

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import QueryParams

from app.dependencies import page_state
from app.features.lessons.base import Lesson
from app.features.lessons.table import LESSONS
from app.features.share.card_picture import HEIGHT, WIDTH, WIDTHS
from app.panels import steps
from app.panels.sentence import heading
from app.parts.base import Here, Part, Settings
from app.parts.show import settings_of
from app.parts.table import PARTS
from app.render.places import default_address
from app.request import look
from app.request.look import Look
from app.request.paths import EXPLORE, HOME, encoded, link, share_url
from app.request.state import State
from app.server.prefix import ROOT, AppPath, Url, rooted

if TYPE_CHECKING:
    from app.services import Services
    from model import Run

What = Literal["why", "values"]

CARD, OEMBED = AppPath("/card.png"), AppPath("/oembed")
FRAME_WIDTH = 720
HEIGHTS: dict[What, int] = {"why": 900, "values": 860}
LONGEST_TEXT = 120  # characters of a text that is quoted
HIDES: dict[What, tuple[str, ...]] = {
    "why": (*look.TEXT, *look.WHY),
    "values": (*look.TEXT, *look.WHY, *look.VALUES),
}


class NotShared(Exception):
    """The address is not one of a page of this site that can be framed."""


@dataclass(frozen=True)
class Shared:
    """Paths are rooted. `frame` is the page for a frame, `hides` what can be left out of it, `height` a good guess.

    `card` is the path of the picture. `part` is the live part that the frame shows, None for numbers.
    """

    title: str
    description: str
    path: Url
    frame: Url
    card: Url
    height: int
    hides: tuple[str, ...]
    state: State
    part: Part | None = None
    settings: Settings | None = None

    @property
    def alt(self) -> str:
        """What the picture shows, in words."""
        return f"A card: {self.title}, with what it is made from. {self.description}"

    def framed(self, given: Look) -> str:
        """The page for a frame, in a look."""
        more = encoded(given.query)
        return f"{self.frame}{'&' if '?' in self.frame else '?'}{more}" if more else self.frame

    def snippet(self, origin: str, given: Look, width: str = "100%", height: int = 0) -> str:
        """The HTML that frames it. `origin` is this site's scheme and host."""
        src = escape(origin + self.framed(given), quote=True)
        title = escape(self.title, quote=True)
        size = f'width="{escape(width)}" height="{height or self.height}"'
        return f'<iframe src="{src}" title="{title}" {size} loading="lazy" style="border:0"></iframe>'

    def picture(self, width: int = WIDTH) -> str:
        """The path of the picture in one of its widths."""
        return self.card if width == WIDTH else f"{self.card}&width={width}"

    def oembed(self, origin: str, form: Literal["json", "xml"] = "json") -> Url:
        """The path where the frame's oEmbed answer is."""
        return Url(f"{rooted(OEMBED)}?{urlencode({'url': origin + self.path, 'format': form}, quote_via=quote)}")

    @property
    def share(self) -> Url:
        """The page that helps to share it."""
        return share_url(self.path)


def picture_height(width: int) -> int:
    return round(HEIGHT * width / WIDTH)


def largest_picture(max_width: int, max_height: int) -> int:
    """The widest picture that fits; 0 where none does."""
    return next((w for w in WIDTHS if w <= max_width and picture_height(w) <= max_height), 0)


# -- what pages make


def of_number(run: Run, state: State, what: What = "why") -> Shared:
    """A number of a run, or several: an explanation, or the table where it stands. Raises AddressError."""
    at = state.at or default_address(run)
    title = at if steps.must_wait(run, at) else heading(run, at)
    bare = state.replace(at=at, page=EXPLORE, own=(), look=(), trail=(), nudge=None)
    return Shared(
        title=title,
        description=_about(run),
        path=link(EXPLORE, bare.pairs()),  # in full, wherever the page that says it holds the text
        frame=bare.replace(page=AppPath(f"/embed/{what}")).url(),
        card=_card(bare.replace(row=None, col=None, order="size", offset=0)),
        height=HEIGHTS[what],
        hides=HIDES[what],
        state=bare,
    )


def of_home(run: Run, state: State) -> Shared:
    """The first page; its frame and picture show the likeliest next token of its sentence."""
    shown = of_number(run, state)
    return replace(shown, title="Every Number: GPT-2 with every number clickable", path=rooted(HOME))


def of_part(run: Run, part: Part, state: State, settings: Settings) -> Shared:
    """A live part with its settings."""
    bare = state.replace(at="", page=EXPLORE, own=(), look=(), trail=(), row=None, col=None, order="size", offset=0)
    here = Here(part, bare, settings)
    return Shared(
        title=part.title,
        description=f"{part.about} {_about(run)}",
        path=here.url(),
        frame=here.url(),
        card=_card(bare, of=f"embed/{part.name}"),
        height=part.rem * 16 + 120,
        hides=can_hide(part),
        state=bare,
        part=part,
        settings=settings,
    )


def of_lesson(run: Run, lesson: Lesson, state: State, section: str = "") -> Shared:
    """A lesson; its frame shows the first live part of the section, or of the lesson."""
    bare = state.replace(at="", page=EXPLORE, own=(), look=(), trail=(), row=None, col=None, order="size", offset=0)
    homes = [part for part in PARTS.values() if part.home.startswith(f"{lesson.name}#")]
    part = next((part for part in homes if part.home == f"{lesson.name}#{section}"), homes[0])
    shown = of_part(run, part, bare, part.settings())
    title = next((one.title for one in lesson.sections if one.id == section), "")
    return replace(
        shown,
        title=f"{lesson.title}: {title}" if title else lesson.title,
        description=f"{lesson.lead} {_about(run)}",
        path=Url(bare.url(lesson.path) + (f"#{section}" if title else "")),
        card=_card(bare, of=f"lesson/{lesson.name}"),
    )


def can_hide(part: Part) -> tuple[str, ...]:
    """What can be left out of a live part: each of its controls, and kinds of things that it shows."""
    return (*part.settings.model_fields, *look.RUN_FIELDS, *look.PART, *look.WHY)


def _about(run: Run) -> str:
    text = " ".join(run.text.split())
    text = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return f"“{text}”, read by {run.model.name}. Every number opens into what made it."


def _card(state: State, of: str = "") -> Url:
    """The picture of a number, or of a page by its name."""
    return link(CARD, [*([("of", of)] if of else []), *state.pairs()])


# -- from an address


@dataclass(frozen=True)
class Asked:
    """What an address leads to: the run it needs, and what to make of it."""

    state: State
    make: Callable[[Run], Shared]


def asked_for(services: Services, address: str, origin: str, what: What = "why") -> Asked:
    """The page behind an address: a whole one of this site (`origin`), or its path.

    Nothing is fetched; the address is only read. Raises NotShared, and a ReaderError for what it may not ask.
    """
    try:
        parts, own = urlsplit(address), urlsplit(origin)
    except ValueError:  # as of a host that begins with a bracket
        raise NotShared from None
    if (parts.scheme or parts.netloc) and (
        parts.scheme not in ("http", "https") or parts.netloc.lower() != own.netloc.lower()
    ):
        raise NotShared
    root = ROOT.get()
    if not parts.path.startswith(f"{root}/"):
        raise NotShared
    path, query = unquote(parts.path.removeprefix(root)), QueryParams(parts.query)
    try:
        return _page(services, path, query, unquote(parts.fragment), what)
    except (ValidationError, RequestValidationError):
        raise NotShared from None


def _page(services: Services, path: str, query: QueryParams, section: str, what: What) -> Asked:
    if path == "/":
        home = State(text=services.models.entry("").text)
        return Asked(home, lambda run: of_home(run, home))
    if path == EXPLORE:
        state = page_state(services, query)
        return Asked(state, lambda run: of_number(run, state, what))
    if path in ("/embed/why", "/embed/values"):
        state = page_state(services, query)
        kind: What = "why" if path == "/embed/why" else "values"
        return Asked(state, lambda run: of_number(run, state, kind))
    if (part := PARTS.get(path.removeprefix("/embed/"))) and path.startswith("/embed/"):
        settings, state = settings_of(part, query), part_run(part, page_state(services, query), query)
        return Asked(state, lambda run: of_part(run, part, state, settings))
    if lesson := next((one for one in LESSONS if one.path == path), None):
        state = lesson.aimed(page_state(services, query), asked=bool({"target", "text"} & set(query)))
        return Asked(state, lambda run: of_lesson(run, lesson, state, section))
    raise NotShared


def part_run(part: Part, state: State, query: QueryParams) -> State:
    """The state with the part's own run, where the query names neither a model nor a text."""
    if part.run is None or {"model", "text"} & set(query):
        return state
    run = part.run
    return state.replace(model=run.model, text=run.text, target=run.target, bos=run.bos)
