"""Which models a reader can choose: those built in, those in directories, and the published ones that are here.

A name only ever selects from this list; it is never taken as a path.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.request.state import DEFAULT_TEXT
from app.settings import AppSettings
from app.stores.downloads import Downloads
from model.arch.base import Config
from model.arch.registry import architecture_of, config_from
from model.errors import CheckpointError, UnknownModel
from model.loading import EMBEDDED
from model.toy import CONFIG as TOY_CONFIG
from model.weights import hub
from model.weights.checkpoints import WEIGHTS
from model.weights.hub import DownloadError, Published

log = logging.getLogger(__name__)

TOY_TEXT = "the cat sat on the"


class NotHere(UnknownModel):
    """A published model that is not on this machine yet."""

    code = "model_not_here"


@dataclass(frozen=True)
class Entry:
    """One model that can be chosen.

    `card` is a text about it, `text` the sentence it starts with; `is_closed` says that it knows few words.
    """

    name: str
    config: Config
    source: str | Path
    directory: Path | None = None
    card: Path | None = None
    text: str = DEFAULT_TEXT
    is_closed: bool = False

    @property
    def n_parameters(self) -> int:
        """All weights, the embedding table counted once."""
        return architecture_of(self.config).n_parameters(self.config)

    @property
    def memory(self) -> int:
        """Bytes that it takes when loaded: four a weight."""
        return 4 * self.n_parameters

    @property
    def on_disk(self) -> int:
        """Bytes of the file with its weights; 0 where it has none."""
        path = self.directory / WEIGHTS if self.directory else None
        return path.stat().st_size if path is not None and path.exists() else 0


class Catalogue:
    """The models by name. `default` is the one that a page without `model=` uses."""

    def __init__(self, settings: AppSettings) -> None:
        self._entries = {entry.name: entry for entry in _built_in()}
        self._unfit: set[str] = set()
        self.downloads_allowed = settings.downloads != "off"
        self.downloads = Downloads(self._add_published)
        self.default = settings.model
        if settings.model not in self._entries and not hub.published(settings.model):
            self.default = self._add(Path(settings.model))
        for directory in filter(None, settings.models.split(os.pathsep)):
            self._add_all(Path(directory))
        self._look_into_cache()
        if self.default not in self._entries:
            self._fetch_default(settings.model)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> Entry:
        """The model of that name, "" being the default. Raises UnknownModel, NotHere."""
        wanted = name or self.default
        if wanted not in self._entries:
            self._look_into_cache()
        if wanted in self._entries:
            return self._entries[wanted]
        if (one := hub.published(name)) and self.downloads_allowed:
            raise NotHere(
                f"The model “{name}” is not on this server yet.", f"It can be fetched: {one.title} on /models."
            )
        raise UnknownModel(f"There is no model “{name[:80]}” here.", f"Choose one of {', '.join(self._entries)}.")

    @property
    def offers(self) -> list[Published]:
        """The published checkpoints that are not here and may be fetched."""
        self._look_into_cache()
        return [one for one in hub.PUBLISHED if one.name not in self._entries] if self.downloads_allowed else []

    def _fetch_default(self, name: str) -> None:
        """The default model is a published one that is not here: fetch it, or do without it and say so."""
        published = hub.published(name)
        assert published is not None
        try:
            if not self.downloads_allowed:
                raise DownloadError(f"{published.title} is not on this machine, and EVERYNUMBER_DOWNLOADS is off.")
            self._add_published(published, hub.fetch(published, patient=True))
        except DownloadError as fault:
            self.default = next(iter(self._entries))
            log.error("%s %s Meanwhile “%s” is shown.", fault.message, fault.hint, self.default)

    def _look_into_cache(self) -> None:
        """Published checkpoints that the hub's cache holds by now, whoever fetched them."""
        for one in hub.PUBLISHED:
            if one.name not in self._entries and one.name not in self._unfit and (found := hub.cached(one)):
                self._add_published(one, found)

    def _add_published(self, one: Published, directory: Path) -> None:
        """A published checkpoint is in the hub's cache: from now on it can be chosen."""
        try:
            self._entries.setdefault(one.name, _stored(one.name, directory))
        except CheckpointError as fault:
            log.warning("Left out %s: %s", one.name, fault.message)
            self._unfit.add(one.name)

    def _add(self, directory: Path) -> str:
        directory = directory.resolve()
        if not (directory / "config.json").exists():
            raise UnknownModel(
                f"There is no model “{directory.name}”: {directory} holds no config.json.",
                "Name embedded, toy, or the directory of a GPT-2 checkpoint.",
            )
        entry = _stored(directory.name, directory)
        if entry.name in self._entries:
            raise CheckpointError(f"Two models would be called “{entry.name}”.", "Rename one of their directories.")
        self._entries[entry.name] = entry
        return entry.name

    def _add_all(self, directory: Path) -> None:
        """A checkpoint, or all checkpoints right below a directory; those below that do not fit are left out."""
        if (directory / "config.json").exists():
            self._add(directory)
            return
        if not directory.is_dir():
            raise UnknownModel(f"EVERYNUMBER_MODELS: there is no directory {directory}.")
        for path in sorted(path.parent for path in directory.glob("*/config.json")):
            try:
                self._add(path)
            except CheckpointError as fault:
                log.warning("Left out the checkpoint in %s: %s", path, fault.message)


def _built_in() -> Iterator[Entry]:
    if (EMBEDDED / "config.json").exists():
        yield _stored("embedded", EMBEDDED, EMBEDDED.parent / "README.md", "embedded")
    yield Entry("toy", TOY_CONFIG, "toy", text=TOY_TEXT, is_closed=True)


def _stored(name: str, directory: Path, card: Path | None = None, source: str = "") -> Entry:
    """The entry of a checkpoint's directory. Raises CheckpointError."""
    try:
        config = config_from(json.loads((directory / "config.json").read_text("utf-8")))
    except ValueError as fault:
        message = fault.message if isinstance(fault, CheckpointError) else str(fault)
        raise CheckpointError(f"{directory}: {message}") from None
    return Entry(name, config, source or directory, directory, card or directory / "README.md")
