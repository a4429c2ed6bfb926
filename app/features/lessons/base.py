"""What a lesson is: sections, each a template of its own, and a function that measures what the prose will claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.parts.base import Part, Scene, View
from app.parts.table import PARTS
from app.request.state import DEFAULT_TEXT, State
from app.server.prefix import AppPath


@dataclass(frozen=True)
class Section:
    """One section. `id` names its template and its place in the URL; `parts` are the headings inside it: id, title."""

    id: str
    title: str
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Lesson:
    """One lesson. Its templates are `lessons/NAME/SECTION.html`; they see `f`, what `facts` made of the scene.

    `extra` gives the templates more names: other runs' numbers, tables.
    """

    name: str
    number: int
    title: str
    lead: str
    sections: tuple[Section, ...]
    facts: Callable[[Scene], View]
    extra: Callable[[Scene], dict[str, Any]] = lambda _scene: {}
    target: str = ""  # the target where neither text nor target is asked for and the text is the default one

    @property
    def path(self) -> AppPath:
        return AppPath(f"/lessons/{self.name}")

    @property
    def live_parts(self) -> list[Part]:
        """The live parts that stand in it, in the order of its sections."""
        places = [id for section in self.sections for id in (section.id, *(part for part, _ in section.parts))]
        homes = [f"{self.name}#{place}" for place in places]
        mine = (part for part in PARTS.values() if part.home in homes)
        return sorted(mine, key=lambda part: (homes.index(part.home), part.turn))

    def aimed(self, state: State, *, asked: bool) -> State:
        """The lesson's own target where the reader has asked for no text and no target."""
        return state if asked or state.text != DEFAULT_TEXT else state.replace(target=self.target)
