"""The models in memory: loaded when first asked for, once for all who ask, unloaded when memory is short."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from app.server.process import machine_memory, use_threads
from app.settings import AppSettings
from app.stores.budgeted import BudgetedStore, Busy
from app.stores.catalogue import Catalogue, Entry
from model import LanguageModel, load
from model.errors import ReaderError
from model.runtime.device import chosen
from model.runtime.loaded import LoadedModel
from model.study.heads import HeadScores, measure_heads
from model.toy import toy
from model.weights import hub
from model.weights.tokenizer import Tokenizer, load_tokenizer

SHARE = 0.5  # of the machine's memory, for models, where no setting says how much
LOADERS = 2  # models that are read at the same time
ROOM = 15.0  # seconds to wait until memory is given back
MEASURED = 100  # models whose heads' scores are kept


class TooLarge(ReaderError):
    """A model that alone takes more memory than models may."""

    code, part = "model_too_large", "model"


@dataclass
class Loading:
    """A model being read: `share` from 0 to 1. `model` gives it, or what went wrong, to all who wait."""

    entry: Entry
    share: float = 0.0
    model: Future[LanguageModel] = field(init=False)

    def advance(self, share: float) -> None:
        self.share = share


class ModelStore(Catalogue):
    """The catalogue, and those of its models that are loaded, within a budget of memory.

    A model in use is not unloaded; whoever keeps something that holds a model registers with `on_unload` and lets go of
    it then.
    """

    def __init__(self, settings: AppSettings) -> None:
        super().__init__(settings)
        self._settings = settings
        chosen(settings.device)  # a GPU that is asked for and not there is told at the start
        self.loaded = BudgetedStore[str, LanguageModel](
            settings.model_memory_mb * 2**20 or int(SHARE * machine_memory()),
            lambda model: self.entry(model.name).memory,
            on_drop=self._unloaded,
        )
        self._loading: dict[str, Loading] = {}
        self._heads = BudgetedStore[str, list[HeadScores]](MEASURED, lambda scores: 1)
        self._loaders = ThreadPoolExecutor(LOADERS, thread_name_prefix="load")
        self._on_unload: list[Callable[[str], None]] = []

    def close(self) -> None:
        """Begin nothing more."""
        self.downloads.close()
        self._loaders.shutdown(wait=False, cancel_futures=True)

    def get(self, name: str) -> LanguageModel:
        """The loaded model; the first to ask has it loaded, all others wait for that. Raises ReaderError, Busy."""
        found = self.begin(name)
        return found.model.result() if isinstance(found, Loading) else found

    def begin(self, name: str) -> LanguageModel | Loading:
        """The model where it is loaded; else how far its loading is, which begins now."""
        entry = self.entry(name)
        with self.loaded.lock:
            if model := self.loaded.get(entry.name):
                return model
            if loading := self.loading(entry.name):
                return loading
            loading = self._loading[entry.name] = Loading(entry)
            loading.model = self.loaded.submit(entry.name, self._loaders, partial(self._load, loading))
        return loading

    async def ready(self, name: str) -> LanguageModel:
        """The loaded model, waited for without holding a thread."""
        found = self.begin(name)
        return await asyncio.shield(asyncio.wrap_future(found.model)) if isinstance(found, Loading) else found

    def tokenizer(self, name: str) -> Tokenizer:
        """A model's tokenizer, whether its weights are in memory or not: they are not read for it."""
        entry = self.entry(name)
        if model := self.loaded.get(entry.name):
            return model.tokenizer
        return load_tokenizer(entry.directory) if entry.directory else toy().tokenizer

    def is_loaded(self, name: str) -> bool:
        return name in self.loaded

    def loading(self, name: str) -> Loading | None:
        """How far a model's loading is, where it is under way."""
        return self._loading.get(name) if self.loaded.is_making(name) else None

    def fits(self, entry: Entry) -> bool:
        """Whether it can be loaded at all."""
        return entry.memory <= self.loaded.budget

    def in_use(self, name: str) -> AbstractContextManager[None]:
        """While this lasts, the model of that name, once loaded, is not unloaded."""
        return self.loaded.in_use(self.entry(name).name)

    def is_current(self, model: LoadedModel) -> bool:
        """Whether this is a loaded model, and not one that was unloaded in the meantime."""
        return self.loaded.get(model.name) is model.original

    def on_unload(self, forget: Callable[[str], None]) -> None:
        """`forget` is called with the name of each model that is unloaded."""
        self._on_unload.append(forget)

    def heads(self, name: str) -> list[HeadScores]:
        """What each head does, measured when first asked for."""
        name = self.entry(name).name
        with self.in_use(name):
            return self._heads.once(name, lambda: self._measure(name))

    def _measure(self, name: str) -> list[HeadScores]:
        use_threads(self.entry(name).n_parameters, self._settings.threads)
        return measure_heads(self.get(name))

    def _load(self, loading: Loading) -> LanguageModel:
        entry = loading.entry
        n_before = len(self.loaded)
        self._make_room(entry)
        model = load(entry.source, called=entry.name, advance=loading.advance, device=self._settings.device)
        if len(self.loaded) < n_before:
            gc.collect()  # again, for a thread that was just ending its use of an unloaded one
        return model

    def _make_room(self, entry: Entry) -> None:
        """Unload the least recently used models until this one fits; wait a while for those in use."""
        if not self.fits(entry):
            raise TooLarge(
                f"The model {entry.name} needs {hub.megabytes(entry.memory)} of memory; "
                f"models may use {hub.megabytes(self.loaded.budget)} here.",
                "EVERYNUMBER_MODEL_MEMORY_MB sets the limit.",
            )
        if not self.loaded.reserve(entry.name, entry.memory, ROOM):
            raise Busy(f"The memory for models is in use, and {entry.name} does not fit beside it.")

    def _unloaded(self, name: str) -> None:
        self._loading.pop(name, None)
        for forget in self._on_unload:
            forget(name)
        gc.collect()  # a network and its hooks hold each other
