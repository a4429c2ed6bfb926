"""The menu of models: where each choice leads, and which can be fetched."""

from __future__ import annotations

from typing import Any

from app.request.paths import EXPLORE
from app.request.state import State
from app.server.prefix import AppPath
from app.stores.catalogue import Entry
from app.stores.models import ModelStore

FIRST = "gpt2"  # the published model that the menu offers; the others are on the page of models


def menu(models: ModelStore, state: State, path: AppPath = EXPLORE) -> list[dict[str, Any]]:
    """Every model on the page at `path`, with the reader's own text where the model's vocabulary can hold it."""
    current = models.entry(state.model)
    return [
        {
            "entry": entry,
            "url": _state(models, entry, current, state).url(path),
            "is_current": entry.name == current.name,
            "status": status(models, entry),
        }
        for entry in models
    ]


def offer(models: ModelStore) -> dict[str, Any]:
    """What the menu says below the models: one to fetch, how far those are that were asked for, how many more."""
    offers = models.offers
    asked = [found for one in offers if (found := models.downloads.find(one.name)) and found.stage != "cancelled"]
    first = next((one for one in offers if one.name == FIRST and not any(d.published is one for d in asked)), None)
    return {"first": first, "downloads": asked, "more": len(offers) - len(asked) - (first is not None)}


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
