"""What the page of models says about each: its shape, what it takes, where it is, and what can be done about that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.render.menu import status
from app.request.state import State
from app.stores.catalogue import Entry
from app.stores.downloads import Download
from app.stores.models import ModelStore
from model.arch.base import Config
from model.arch.registry import architecture_of
from model.weights import hub
from model.weights.hub import Published, megabytes

Where = Literal["here", "coming", "failed", "stopped", "absent"]


@dataclass(frozen=True)
class Card:
    """One model. `url` explores it; `download` is the last that was asked for; `unfinished` what one left on disk."""

    name: str
    title: str
    config: Config
    parameters: int
    memory: str
    on_disk: str
    where: Where
    status: str = ""
    url: str = ""
    download: Download | None = None
    unfinished: str = ""
    repo: str = ""
    is_default: bool = False

    @property
    def percent(self) -> int:
        return int(100 * self.download.share) if self.download else 0

    @property
    def left(self) -> str:
        """About how long it takes yet."""
        seconds = self.download.seconds_left if self.download else None
        if seconds is None:
            return ""
        if seconds < 90:
            return f"about {max(round(seconds), 1)} s left"
        return f"about {round(seconds / 60)} minutes left"

    @property
    def came(self) -> str:
        """How much is there, of how much."""
        return f"{megabytes(int(self.download.done))} of {megabytes(int(self.download.total))}" if self.download else ""


def cards(models: ModelStore) -> list[Card]:
    """All models: those that were asked for, those here, then the others that can be fetched."""
    here, offered = [_of_entry(models, entry) for entry in models], [_of_offer(models, one) for one in models.offers]
    asked = [card for card in offered if card.where != "absent"]
    return [*asked, *here, *(card for card in offered if card not in asked)]


def card(models: ModelStore, name: str) -> Card | None:
    """One of them."""
    return next((found for found in cards(models) if found.name == name), None)


def _of_entry(models: ModelStore, entry: Entry) -> Card:
    name = "" if entry.name == models.default else entry.name
    one = hub.published(entry.name)
    return Card(
        name=entry.name,
        title=one.title if one else entry.name,
        config=entry.config,
        parameters=entry.n_parameters,
        memory=megabytes(entry.memory),
        on_disk=megabytes(entry.on_disk) if entry.on_disk else "",
        where="here",
        status=status(models, entry) or "not loaded",
        url=State(model=name, text=entry.text).url() if models.fits(entry) else "",
        is_default=not name,
    )


def _of_offer(models: ModelStore, one: Published) -> Card:
    download = models.downloads.find(one.name)
    unfinished = hub.unfinished(one)
    parameters = architecture_of(one.config).n_parameters(one.config)
    return Card(
        name=one.name,
        title=one.title,
        config=one.config,
        parameters=parameters,
        memory=megabytes(4 * parameters),
        on_disk=megabytes(one.size),
        where=_where(download),
        status="" if 4 * parameters <= models.loaded.budget else "too large for this server",
        download=download,
        unfinished=megabytes(unfinished) if unfinished else "",
        repo=one.repo,
    )


def _where(download: Download | None) -> Where:
    if download is None or download.stage == "done":
        return "absent"
    if download.stage == "failed":
        return "failed"
    return "stopped" if download.stage == "cancelled" else "coming"
