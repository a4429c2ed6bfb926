"""The models a reader can choose: found once by name, loaded when first asked for.

A name only ever selects from the list made at the start; it is never taken as a path.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.settings import Settings
from app.urls import DEFAULT_TEXT
from model import LanguageModel, load
from model.config import Config
from model.errors import CheckpointError, UnknownModel
from model.heads import HeadScores, measure_heads
from model.loading import EMBEDDED
from model.toy import CONFIG as TOY_CONFIG

log = logging.getLogger(__name__)

TOY_TEXT = "the cat sat on the"


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
        c = self.config
        attention = 4 * c.d_model * c.d_model + 4 * c.d_model
        feed_forward = 2 * c.d_model * c.d_mlp + c.d_mlp + c.d_model
        block = attention + feed_forward + 4 * c.d_model
        return (c.d_vocab + c.n_ctx) * c.d_model + c.n_layer * block + 2 * c.d_model


class ModelStore:
    """Models by name. `default` is the one that a page without `model=` uses."""

    def __init__(self, settings: Settings) -> None:
        self._entries = {entry.name: entry for entry in _built_in()}
        self.default = settings.model
        if settings.model not in self._entries:
            self.default = self._add(Path(settings.model))
        for directory in filter(None, settings.models.split(os.pathsep)):
            self._add_all(Path(directory))
        self._loaded: dict[str, LanguageModel] = {}
        self._heads: dict[str, list[HeadScores]] = {}
        self._locks = {name: threading.Lock() for name in self._entries}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> Entry:
        """The model of that name, "" being the default. Raises UnknownModel."""
        try:
            return self._entries[name or self.default]
        except KeyError:
            raise UnknownModel(
                f"There is no model “{name[:80]}” here.", f"Choose one of {', '.join(self._entries)}."
            ) from None

    def get(self, name: str) -> LanguageModel:
        """The loaded model; the first to ask loads it, others wait for that."""
        entry = self.entry(name)
        with self._locks[entry.name]:
            if entry.name not in self._loaded:
                self._loaded[entry.name] = load(entry.source)
            return self._loaded[entry.name]

    def heads(self, name: str) -> list[HeadScores]:
        """What each head does, measured when first asked for."""
        model = self.get(name)
        with self._locks[model.name]:
            if model.name not in self._heads:
                self._heads[model.name] = measure_heads(model)
            return self._heads[model.name]

    def _add(self, directory: Path) -> str:
        entry = _of_directory(directory.resolve())
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
        for path in sorted(directory.iterdir()):
            if (path / "config.json").exists():
                try:
                    self._add(path)
                except CheckpointError as fault:
                    log.warning("Left out the checkpoint in %s: %s", path, fault.message)


def _built_in() -> Iterator[Entry]:
    if (EMBEDDED / "config.json").exists():
        yield Entry("embedded", _config(EMBEDDED), "embedded", EMBEDDED, EMBEDDED.parent / "README.md")
    yield Entry("toy", TOY_CONFIG, "toy", text=TOY_TEXT, is_closed=True)


def _of_directory(directory: Path) -> Entry:
    if not (directory / "config.json").exists():
        raise UnknownModel(
            f"There is no model “{directory.name}”: {directory} holds no config.json.",
            "Name embedded, toy, or the directory of a GPT-2 checkpoint.",
        )
    return Entry(directory.name, _config(directory), directory, directory, directory / "README.md")


def _config(directory: Path) -> Config:
    try:
        return Config.from_hf(json.loads((directory / "config.json").read_text("utf-8")))
    except ValueError as fault:
        message = fault.message if isinstance(fault, CheckpointError) else str(fault)
        raise CheckpointError(f"{directory}: {message}") from None
