"""What a live part is, and what it gets to work with.

A part is a title, a model of its settings (read from the query and checked), and a function from a scene and those
settings to whatever its template `parts/NAME.html` shows as `view`. It never formats a link by hand: `num` makes
numbers clickable, `here.url` makes links that change a setting, `here.hidden` the hidden fields of a form.

    class Settings(base.Settings):
        d: int = Field(64, ge=1, le=512)

    def view(scene: Scene, s: Settings) -> View: ...

    PART = Part("scaling", "Why divide by √d", Settings, view, home="transformer#scale", about="…")
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from app.render import numbers
from app.render.links import Links
from app.render.tokens import token_html
from app.request.paths import EXPLORE, link
from app.request.state import State
from app.server.prefix import AppPath, Url
from app.services import Services
from model import Run
from model.runtime.loaded import LoadedModel


class Settings(BaseModel):
    """What a reader can set. What the query has beside it is left alone: the run, the selected number."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def query(self, **changes: Any) -> list[tuple[str, str]]:
        """As query parameters; those at their defaults are left out."""
        kept = self.model_dump(exclude_defaults=True) | changes
        return [(name, written(kept[name])) for name in type(self).model_fields if name in kept]


def written(x: Any) -> str:
    """A setting as it stands in a URL or in a form's field."""
    if isinstance(x, bool):
        return "1" if x else "0"
    return f"{x:.6g}" if isinstance(x, float) else str(x)


# -- numbers that are links


def formatted(x: float, form: str = "3") -> str:
    """A number in one of the forms: "0"…"6" decimals, with "+" in front signed; "percent", "sci", "count",
    "brief" (three figures), "auto"."""
    if numbers.special(x):
        return numbers.special(x) or ""
    if form == "percent":
        return ("−" if x < 0 else "") + numbers.percent(abs(x))
    if form == "sci":
        return numbers.scientific(x)
    if form == "count":
        return numbers.count(round(x))
    if form == "brief":
        return numbers.brief(x) if abs(x) < 1000 else numbers.count(round(x)) if abs(x) < 1e6 else numbers.scientific(x)
    if form == "auto":
        return numbers.value(float(round(x)) if abs(x - round(x)) < 1e-9 else x, 3)
    sign = "+" if form.startswith("+") and x > 0 else ""
    digits = int(form.lstrip("+"))
    if x and abs(x) < 0.5 * 10.0**-digits:
        return sign + numbers.scientific(x, 1)
    return sign + numbers.fixed(x, digits)


class Numbers:
    """Numbers of one run as links: `num("logits[3,17]", "2")`. On a page they open in its why panel.

    `form` is the id of the form that carries the run where the text is too long for a link in every number; "" where
    no form does, as for a run that the page is not about: then they are links all the same.
    """

    def __init__(self, run: Run, state: State, *, form: str = "go") -> None:
        self.run, self.state, self.path, self.form = run, state, state.page, form
        self._cells = Links(state)
        self._cells.as_buttons &= bool(form)

    def value(self, at: str) -> float:
        """The number at an address."""
        return float(self.run.values(at))

    def __call__(self, at: str, form: str = "3", *, label: str = "", css: str = "num live") -> Markup:
        """The number at an address, read from the run, as a link."""
        return self.shown(at, formatted(self.value(at), form), label=label, css=css)

    def calc(self, expression: str, form: str = "3", **more: Any) -> Markup:
        """The value of an expression over addresses, as a link to its arithmetic."""
        return self(f"calc({expression})", form, **more)

    def shown(self, at: str, text: str, *, label: str = "", css: str = "num", current: bool = False) -> Markup:
        """A link to an address with a text already made (of a number that the caller has at hand)."""
        return self._own(self._cells.number(at, text, css=css, label=label, current=current))

    def link(self, at: str, inner: Markup, *, css: str = "", attributes: str = "", current: bool = False) -> Markup:
        """Anything that opens an address, such as a bar of a chart. Inside an SVG use `href`."""
        return self._own(self._cells.link(at, inner, css=css, attributes=attributes, current=current))

    def href(self, at: str) -> str:
        """The URL that opens an address, not escaped."""
        return self.state.select(at).url()

    def in_explorer(self, at: str) -> str:
        """The URL of an address in the explorer, not escaped."""
        return self.state.select(at).url(EXPLORE)

    def token(self, token: int) -> Markup:
        """A vocabulary entry as it is shown in a text."""
        return token_html(self.run.model.tokenizer, token)

    def at(self, position: int) -> Markup:
        """The token at a position of the text."""
        return self.token(self.run.tokens[position])

    def _own(self, link: Markup) -> Markup:
        return link if self.form == "go" else Markup(str(link).replace('form="go"', f'form="{escape(self.form)}"', 1))


# -- where a part is shown


@dataclass(frozen=True)
class Scene:
    """What a part looks at: a run, the state that names it, and the app's models and runs."""

    services: Services
    run: Run
    state: State
    num: Numbers

    @property
    def model(self) -> LoadedModel:
        return self.run.model

    @property
    def last(self) -> int:
        """The last position."""
        return self.run.n_pos - 1

    def run_of(self, state: State) -> Run:
        """Another run, from the cache or computed now. Only for use in a reader's thread."""
        return self.services.runs.submit(self.services.runs.key(state)).result().run

    def numbers_of(self, state: State) -> Numbers:
        """Another run's numbers as links, such as the toy's in the prose."""
        here = state.replace(page=self.state.page, own=self.state.own, look=self.state.look)
        return Numbers(self.run_of(state), here, form="")


@dataclass(frozen=True)
class Part:
    """One live part. `home` is the lesson and section where it stands; `rem` the height kept free while it loads.

    `run` is what it looks at where neither a model nor a text is asked for, if that is not the default run.
    """

    name: str
    title: str
    settings: type[Settings]
    view: Callable[[Scene, Any], Any]
    home: str
    about: str
    rem: int = 24
    run: State | None = None

    @property
    def template(self) -> str:
        return f"parts/{self.name}.html"

    @property
    def height(self) -> str:
        """A class of lesson.css: heights in steps of 4 rem up to 80, and one for all above."""
        return f"rem-{4 * math.ceil(self.rem / 4)}" if self.rem <= 80 else "rem-tall"


@dataclass(frozen=True)
class Here:
    """One part with its settings in one run: its URL and what its forms and links need."""

    part: Part
    state: State
    settings: Settings

    @property
    def id(self) -> str:
        return f"live-{self.part.name}"

    @property
    def go(self) -> str:
        """The id of the form that carries the run for numbers that are buttons."""
        return f"go-{self.part.name}"

    def pairs(self, **changes: Any) -> list[tuple[str, str]]:
        """The run and the settings as query parameters, with some changed (`text`, `target` and settings)."""
        run = {name: changes.pop(name) for name in ("text", "target", "model", "bos") if name in changes}
        return [*self.state.replace(**run).run_query, *self.settings.query(**changes), *self.state.look]

    def url(self, **changes: Any) -> Url:
        """The part alone, with some settings changed. Not escaped: templates do that."""
        return link(AppPath(f"/embed/{self.part.name}"), self.pairs(**changes))

    @property
    def file_url(self) -> Url:
        """The part as it stands, as a file that needs no server."""
        return link(AppPath(f"/export/{self.part.name}.html"), self.pairs())

    def hidden(self, *visible: str) -> list[tuple[str, str]]:
        """Fields that a form carries unseen: all but those it shows."""
        return [(name, value) for name, value in self.pairs() if name not in visible]

    @property
    def lesson_url(self) -> str:
        """The section of the lesson where the part stands, with the reader's own sentence."""
        lesson, _, section = self.part.home.partition("#")
        return f"{self.state.replace(at='').url(AppPath(f'/lessons/{lesson}'))}#{section}"
