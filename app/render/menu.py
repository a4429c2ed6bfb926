"""The menu of models: where each choice leads, and which can be fetched."""

from __future__ import annotations

from dataclasses import dataclass

from app.request.paths import EXPLORE
from app.request.state import State
from app.server.prefix import AppPath
from app.stores.catalogue import Entry
from app.stores.downloads import Download
from app.stores.models import ModelStore
from model.weights.hub import Published, megabytes

FIRST = "gpt2"  # the published model that the menu offers; the others are on the page of models


@dataclass(frozen=True)
class Choice:
    """One model in the menu. `status` says whether it is in memory."""

    entry: Entry
    url: str
    is_current: bool
    status: str

    @property
    def memory(self) -> str:
        """What it takes in memory when loaded."""
        return megabytes(self.entry.memory)


@dataclass(frozen=True)
class Offer:
    """What the menu says below the models: one that can be fetched, or how far those are that were asked for."""

    one: Published | None
    downloads: list[Download]
    more: int

    @property
    def size(self) -> str:
        return megabytes(self.one.size) if self.one else ""


def menu(models: ModelStore, state: State, path: AppPath = EXPLORE) -> list[Choice]:
    """Every model on the page at `path`, with the reader's own text where the model's vocabulary can hold it."""
    current = models.entry(state.model)
    return [
        Choice(
            entry, _state(models, entry, current, state).url(path), entry.name == current.name, status(models, entry)
        )
        for entry in models
    ]


def offer(models: ModelStore) -> Offer:
    """What can be fetched, or is on its way."""
    offers = models.offers
    asked = [found for one in offers if (found := models.downloads.find(one.name)) and found.stage != "cancelled"]
    first = next((one for one in offers if one.name == FIRST and not any(d.published is one for d in asked)), None)
    return Offer(first, asked, len(offers) - len(asked) - (first is not None))


def status(models: ModelStore, entry: Entry) -> str:
    """Whether a model is in memory, in a word or two."""
    if models.is_loaded(entry.name):
        return "loaded"
    if models.loading(entry.name):
        return "loading"
    return "" if models.fits(entry) else "too large for this server"


def _state(models: ModelStore, entry: Entry, current: Entry, state: State) -> State:
    keeps_text = entry.name == current.name or not (entry.is_closed or current.is_closed)
    name = "" if entry.name == models.default else entry.name
    return State(model=name, text=state.text if keeps_text else entry.text, bos=state.bos)
