"""What a lesson is: sections, each a template of its own, and a function that measures what the prose will claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.parts.base import Scene
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
    facts: Callable[[Scene], Any]
    extra: Callable[[Scene], dict[str, Any]] = lambda _scene: {}
    glossary: Callable[[Scene], list[tuple[str, str, str]]] = lambda _scene: []
    target: str = ""  # the target where neither text nor target is asked for and the text is the default one

    @property
    def path(self) -> AppPath:
        return AppPath(f"/lessons/{self.name}")

    def aimed(self, state: State, *, asked: bool) -> State:
        """The lesson's own target where the reader has asked for no text and no target."""
        return state if asked or state.text != DEFAULT_TEXT else state.replace(target=self.target)
