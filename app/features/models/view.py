"""What the page of models says about each: its shape, what it takes, where it is, and what can be done about that."""

from __future__ import annotations

from app.render.menu import status
from app.render.templating import Context
from app.request.state import State
from app.stores.catalogue import Entry
from app.stores.models import ModelStore
from model.arch.registry import architecture_of
from model.weights import hub
from model.weights.hub import Published

# Where a model is, by the stage of the download that was asked for last.
WHERE = {"": "absent", "done": "absent", "failed": "failed", "cancelled": "stopped"}


def cards(models: ModelStore) -> list[Context]:
    """All models: those that were asked for, those here, then the others that can be fetched."""
    here = [_of_entry(models, entry) for entry in models]
    offered = [_of_offer(models, published) for published in models.offers]
    asked = [card for card in offered if card["where"] != "absent"]
    return [*asked, *here, *(card for card in offered if card not in asked)]


def _of_entry(models: ModelStore, entry: Entry) -> Context:
    """A model that is here; `url` explores it."""
    name = "" if entry.name == models.default else entry.name
    published = hub.published(entry.name)
    return {
        "name": entry.name,
        "title": published.title if published else entry.name,
        "config": entry.config,
        "parameters": entry.n_parameters,
        "memory": entry.memory,
        "on_disk": entry.on_disk,
        "where": "here",
        "status": status(models, entry) or "not loaded",
        "url": State(model=name, text=entry.text).url() if models.fits(entry) else "",
        "is_default": not name,
    }


def _of_offer(models: ModelStore, published: Published) -> Context:
    """One that can be fetched: its last `download`, and how many bytes of it are `unfinished` on disk."""
    download = models.downloads.find(published.name)
    parameters = architecture_of(published.config).n_parameters(published.config)
    return {
        "name": published.name,
        "title": published.title,
        "config": published.config,
        "parameters": parameters,
        "memory": 4 * parameters,
        "on_disk": published.size,
        "where": WHERE.get(download.stage if download else "", "coming"),
        "status": "" if 4 * parameters <= models.loaded.budget else "too large for this server",
        "download": download,
        "unfinished": hub.unfinished(published),
        "repo": published.repo,
        "is_default": False,
    }
