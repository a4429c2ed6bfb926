"""What a live part is, and what it gets to work with.

A part is one module: a class of settings (read from the query and checked), with a function from the scene to what its
template `parts/NAME.html` shows as `view`. The decorator names it, `table` finds it, and its docstring tells readers
what it is about. It never formats a link by hand: `num` makes numbers clickable, `here.url` makes links that change a
setting.

    @live_part("Why divide by √d", home="transformer#scale")
    class Scaling(Settings):
        "Random queries and keys of any length."

        d: int = Field(64, ge=1, le=512)

        def view(self, scene: Scene) -> View: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo

from app.parts.numbers import Numbers
from app.request.page_state import PageState, reader_error
from app.request.paths import link
from app.request.state import State
from app.server.prefix import AppPath, Url
from app.services import Services
from model import Run
from model.errors import SettingError
from model.runtime.loaded import LoadedModel

RUN = ("model", "text", "target", "bos", "eta", "optimizer")  # what `Here.url` may change beside the settings

View = SimpleNamespace  # what a template shows, each name given once


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
        here = state.replace(page=self.state.page, page_settings=self.state.page_settings, look=self.state.look)
        return Numbers(self.run_of(state), here, form="")


# -- settings


class Settings(PageState):
    """What a reader can set. What the query has beside it is left alone: the run, the selected number."""

    digits = 6

    def view(self, scene: Scene) -> View:
        """What the part's template shows of the scene with these settings."""
        raise NotImplementedError

    def check(self, scene: Scene) -> None:
        """Raises SettingError where a setting names what this run does not have, such as a block."""
        try:
            type(self).model_validate(self.model_dump(), context=scene)
        except ValidationError as error:
            raise reader_error(error.errors()) or error from None


def check_among(name: str, value: int, what: str, whose: str, n: int, first: int = 0) -> None:
    """Raises SettingError unless a setting is one of `n` whole numbers from `first` on."""
    if value >= first + n:
        known = f"{whose} are {first} to {first + n - 1}"
        raise SettingError(name, f"There is no {what} {value}: {known}.", f"Write {name}={first}.")


def _among(what: str, whose: str, count: Callable[[Scene], int], first: int = 0) -> AfterValidator:
    """A setting that names one of so many things of the run: see Settings.check."""

    def check(value: int, info: ValidationInfo) -> int:
        if info.context is not None:
            check_among(str(info.field_name), value, what, whose, count(info.context), first)
        return value

    return AfterValidator(check)


Block = Annotated[int, Field(ge=0, le=999), _among("block", "this model's", lambda scene: scene.model.config.n_layer)]
Head = Annotated[int, Field(ge=0, le=999), _among("head", "this model's", lambda scene: scene.model.config.n_head)]
Position = Annotated[int, Field(ge=0), _among("position", "this text's", lambda scene: scene.run.n_pos)]
Entry = Annotated[int, Field(ge=0), _among("entry", "a row's", lambda scene: scene.model.config.d_model)]
Rank = Annotated[
    int,
    Field(ge=1, le=10_000_000),
    _among("rank", "this vocabulary's", lambda scene: scene.model.config.d_vocab, first=1),
]


# -- parts


@dataclass(frozen=True)
class Part:
    """One live part. `home` is the lesson and section where it stands, `about` says in a sentence what it is, `rem` is
    the height kept free while it loads. `turn` orders several that stand in one section.

    `run` is what it looks at where neither a model nor a text is asked for, if that is not the default run.
    """

    name: str
    title: str
    settings: type[Settings]
    home: str
    about: str
    rem: int = 24
    turn: int = 0
    run: State | None = None

    @property
    def template(self) -> str:
        return f"parts/{self.name}.html"

    @property
    def height(self) -> str:
        """A class of lesson.css: heights in steps of 4 rem up to 80, and one for all above."""
        return f"rem-{4 * math.ceil(self.rem / 4)}" if self.rem <= 80 else "rem-tall"


PARTS: dict[str, Part] = {}  # see app.parts.table

S = TypeVar("S", bound=Settings)


def live_part(
    title: str, *, home: str, rem: int = 24, turn: int = 0, run: State | None = None
) -> Callable[[type[S]], type[S]]:
    """Makes a class of settings a live part, called as its module is and described by its docstring."""

    def register(settings: type[S]) -> type[S]:
        name, about = settings.__module__.rpartition(".")[2], " ".join(str(settings.__doc__).split())
        PARTS[name] = Part(name, title, settings, home, about, rem, turn, run)
        return settings

    return register


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
        """The run and the settings as query parameters, with some changed."""
        run = {name: changes.pop(name) for name in RUN if name in changes}
        return [*self.state.replace(**run).run_query, *self.settings.pairs(**changes), *self.state.look]

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
