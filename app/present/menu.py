"""The menu of models: where each choice leads."""

from __future__ import annotations

from dataclasses import dataclass

from app.models import Entry, ModelStore
from app.urls import State


@dataclass(frozen=True)
class Choice:
    """One model in the menu."""

    entry: Entry
    url: str
    is_current: bool


def menu(models: ModelStore, state: State, path: str = "/explore") -> list[Choice]:
    """Every model on the page at `path`, with the reader's own text where the model's vocabulary can hold it."""
    current = models.entry(state.model)
    return [
        Choice(entry, _state(models, entry, current, state).url(path), entry.name == current.name) for entry in models
    ]


def _state(models: ModelStore, entry: Entry, current: Entry, state: State) -> State:
    keeps_text = entry.name == current.name or not (entry.is_closed or current.is_closed)
    name = "" if entry.name == models.default else entry.name
    return State(model=name, text=state.text if keeps_text else entry.text, bos=state.bos)
