"""The models a reader can choose: found by name, loaded when first asked for, unloaded when memory is short.

A name only ever selects from the list made at the start and from the published checkpoints; it is never taken as a
path.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.request.state import DEFAULT_TEXT
from app.server.process import machine_memory, use_threads
from app.settings import AppSettings
from app.stores.downloads import Downloads
from model import LanguageModel, load
from model.arch.base import Config
from model.arch.registry import architecture_of, config_from
from model.errors import CheckpointError, ReaderError, UnknownModel
from model.loading import EMBEDDED
from model.runtime.device import chosen
from model.study.heads import HeadScores, measure_heads
from model.toy import CONFIG as TOY_CONFIG
from model.toy import toy
from model.weights import hub
from model.weights.checkpoints import WEIGHTS
from model.weights.hub import DownloadError, Published
from model.weights.tokenizer import Tokenizer, load_tokenizer

log = logging.getLogger(__name__)

TOY_TEXT = "the cat sat on the"

SHARE = 0.5  # of the machine's memory, for models, where no setting says how much
LOADERS = 2  # models that are read at the same time
ROOM = 15.0  # seconds to wait until memory is given back


class TooLarge(ReaderError):
    """A model that alone takes more memory than models may."""

    code, part = "model_too_large", "model"


class NotHere(UnknownModel):
    """A published model that is not on this machine yet."""

    code = "model_not_here"


class Busy(Exception):
    """Too much is waiting already, or in use; the message says what."""


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


@dataclass
class Loading:
    """A model being read: `share` from 0 to 1. `model` gives it, or what went wrong, to all who wait."""

    entry: Entry
    share: float = 0.0
    model: Future[LanguageModel] = field(default_factory=Future)

    def advance(self, share: float) -> None:
        self.share = share


class ModelStore:
    """Models by name. `default` is the one that a page without `model=` uses.

    Loaded models are kept while all together fit the budget. The least recently used is unloaded first, never one
    that is in use; whoever keeps something that holds a model registers with `on_unload` and lets go of it then.
    """

    def __init__(self, settings: AppSettings) -> None:
        self._entries = {entry.name: entry for entry in _built_in()}
        self._device = settings.device
        chosen(self._device)  # a GPU that is asked for and not there is told at the start
        self.budget = settings.model_memory_mb * 2**20 or int(SHARE * machine_memory())
        self._threads = settings.threads
        self.downloads_allowed = settings.downloads != "off"
        self.downloads = Downloads(self._arrived)
        self._loaded: OrderedDict[str, LanguageModel] = OrderedDict()
        self._loading: dict[str, Loading] = {}
        self._reserved: dict[str, int] = {}  # bytes for those being read
        self._in_use: Counter[str] = Counter()
        self._heads: dict[str, list[HeadScores]] = {}
        self._measuring: dict[str, threading.Lock] = {}
        self._changed = threading.Condition()  # guards all of these
        self._loaders = ThreadPoolExecutor(LOADERS, thread_name_prefix="load")
        self._unfit: set[str] = set()
        self._forget: list[Callable[[str], None]] = []
        self._find(settings)

    # -- which there are

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> Entry:
        """The model of that name, "" being the default. Raises UnknownModel, NotHere."""
        if (name or self.default) not in self._entries:
            self._look_into_cache()
        try:
            return self._entries[name or self.default]
        except KeyError:
            pass
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

    def close(self) -> None:
        """Begin nothing more."""
        self.downloads.close()
        self._loaders.shutdown(wait=False, cancel_futures=True)

    # -- loading and unloading

    def get(self, name: str) -> LanguageModel:
        """The loaded model; the first to ask has it loaded, all others wait for that. Raises ReaderError, Busy."""
        found = self.begin(name)
        return found.model.result() if isinstance(found, Loading) else found

    def begin(self, name: str) -> LanguageModel | Loading:
        """The model where it is loaded; else how far its loading is, which begins now."""
        entry = self.entry(name)
        with self._changed:
            if entry.name in self._loaded:
                self._loaded.move_to_end(entry.name)
                return self._loaded[entry.name]
            if entry.name in self._loading:
                return self._loading[entry.name]
            loading = self._loading[entry.name] = Loading(entry)
        self._loaders.submit(self._load, loading)
        return loading

    async def ready(self, name: str) -> LanguageModel:
        """The loaded model, waited for without holding a thread."""
        found = self.begin(name)
        return await asyncio.shield(asyncio.wrap_future(found.model)) if isinstance(found, Loading) else found

    def tokenizer(self, name: str) -> Tokenizer:
        """A model's tokenizer, whether its weights are in memory or not: they are not read for it."""
        entry = self.entry(name)
        loaded = self._loaded.get(entry.name)
        if loaded is not None:
            return loaded.tokenizer
        return load_tokenizer(entry.directory) if entry.directory else toy().tokenizer

    def is_loaded(self, name: str) -> bool:
        return name in self._loaded

    def loading(self, name: str) -> Loading | None:
        """How far a model's loading is, where it is under way."""
        return self._loading.get(name)

    def fits(self, entry: Entry) -> bool:
        """Whether it can be loaded at all."""
        return entry.memory <= self.budget

    @property
    def nbytes(self) -> int:
        """Bytes of all loaded models."""
        return sum(self._entries[name].memory for name in self._loaded)

    @contextmanager
    def in_use(self, name: str) -> Iterator[None]:
        """While this lasts, the model of that name, once loaded, is not unloaded."""
        name = self.entry(name).name
        with self._changed:
            self._in_use[name] += 1
            if name in self._loaded:
                self._loaded.move_to_end(name)
        try:
            yield
        finally:
            with self._changed:
                self._in_use[name] -= 1
                self._changed.notify_all()

    def is_current(self, model: LanguageModel) -> bool:
        """Whether this is a loaded model, and not one that was unloaded in the meantime."""
        return self._loaded.get(model.name) is model.original

    def on_unload(self, forget: Callable[[str], None]) -> None:
        """`forget` is called with the name of each model that is unloaded."""
        self._forget.append(forget)

    def _load(self, loading: Loading) -> None:
        name, dropped = loading.entry.name, False
        try:
            dropped = self._make_room(loading.entry)
            model = load(loading.entry.source, called=name, advance=loading.advance, device=self._device)
        except BaseException as fault:
            self._ended(name, None)
            loading.model.set_exception(fault)
        else:
            self._ended(name, model)
            loading.model.set_result(model)
        if dropped:
            gc.collect()  # again, for a thread that was just ending its use of one

    def _ended(self, name: str, model: LanguageModel | None) -> None:
        with self._changed:
            del self._loading[name]
            self._reserved.pop(name, None)
            if model is not None:
                self._loaded[name] = model
            self._changed.notify_all()

    def _make_room(self, entry: Entry) -> bool:
        """Unload the least recently used models until this one fits; wait a while for those in use. True if any was."""
        if not self.fits(entry):
            raise TooLarge(
                f"The model {entry.name} takes {hub.megabytes(entry.memory)} of memory; "
                f"models may take {hub.megabytes(self.budget)} here.",
                "EVERYNUMBER_MODEL_MEMORY_MB says how much.",
            )
        until = time.monotonic() + ROOM
        dropped: list[str] = []
        with self._changed:
            while self.nbytes + sum(self._reserved.values()) + entry.memory > self.budget:
                idle = next((name for name in self._loaded if not self._in_use[name]), None)
                if idle is not None:
                    del self._loaded[idle]
                    dropped.append(idle)
                elif not self._changed.wait(until - time.monotonic()):
                    raise Busy(f"The memory for models is in use, and {entry.name} does not fit beside it.")
            self._reserved[entry.name] = entry.memory
        for name in dropped:
            for forget in self._forget:
                forget(name)
        if dropped:
            gc.collect()  # a network and its hooks hold each other
        return bool(dropped)

    # -- what heads do

    def heads(self, name: str) -> list[HeadScores]:
        """What each head does, measured when first asked for."""
        name = self.entry(name).name
        with self._measuring.setdefault(name, threading.Lock()), self.in_use(name):
            if name not in self._heads:
                use_threads(self.entry(name).n_parameters, self._threads)
                self._heads[name] = measure_heads(self.get(name))
            return self._heads[name]

    # -- finding them

    def _find(self, settings: AppSettings) -> None:
        """The models in directories, those in the hub's cache, and which of all is the default."""
        self.default = settings.model
        is_directory = settings.model not in self._entries and not hub.published(settings.model)
        if is_directory:
            self.default = self._add(Path(settings.model))
        for directory in filter(None, settings.models.split(os.pathsep)):
            self._add_all(Path(directory))
        self._look_into_cache()
        if self.default not in self._entries:
            self._fetch_default(settings)

    def _fetch_default(self, settings: AppSettings) -> None:
        """The default model is a published one that is not here: fetch it, or do without it and say so."""
        one = hub.published(settings.model)
        assert one is not None
        try:
            if not self.downloads_allowed:
                raise DownloadError(f"{one.title} is not on this machine, and EVERYNUMBER_DOWNLOADS is off.")
            self._arrived(one, hub.fetch(one, patient=True))
        except DownloadError as fault:
            self.default = next(iter(self._entries))
            log.error("%s %s Meanwhile “%s” is shown.", fault.message, fault.hint, self.default)

    def _look_into_cache(self) -> None:
        """Published checkpoints that the hub's cache holds by now, whoever fetched them."""
        for one in hub.PUBLISHED:
            if one.name not in self._entries and one.name not in self._unfit and (found := hub.cached(one)):
                self._arrived(one, found)

    def _arrived(self, one: Published, directory: Path) -> None:
        """A published checkpoint is in the hub's cache: from now on it can be chosen."""
        try:
            config = _config(directory)
        except CheckpointError as fault:
            log.warning("Left out %s: %s", one.name, fault.message)
            self._unfit.add(one.name)
            return
        self._entries.setdefault(one.name, Entry(one.name, config, directory, directory, directory / "README.md"))

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
        return config_from(json.loads((directory / "config.json").read_text("utf-8")))
    except ValueError as fault:
        message = fault.message if isinstance(fault, CheckpointError) else str(fault)
        raise CheckpointError(f"{directory}: {message}") from None
