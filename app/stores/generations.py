"""Texts being made: tokens are made only while someone asks for them, so a reader who goes away stops the work.

A request advances its generation for a bounded time (by one token at least) and answers with what there is; the next
one goes on from there. Nothing runs between requests. What is dropped from memory, or was made on another server, is
made again: the same key gives the same tokens.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.request.generation import MOST_TOKENS, GenerationState
from app.server.limits import spend
from app.server.process import use_threads
from app.settings import AppSettings
from app.stores.budgeted import BudgetedStore, Busy
from app.stores.catalogue import Catalogue
from app.stores.models import ModelStore
from model import LanguageModel
from model.errors import ReaderError
from model.runtime.generate import Step
from model.runtime.sample import Sampling, check_whole


class GenerationKey(NamedTuple):
    """What makes two requests the same generation, however many of its tokens they want."""

    model: str
    text: str
    bos: bool
    sampling: Sampling
    stop: str
    picks: tuple[tuple[int, int], ...]
    compare: bool


def key_of(models: Catalogue, asked: GenerationState) -> GenerationKey:
    """The generation that a page is a view of. Raises UnknownModel, SettingError."""
    entry = models.entry(asked.model)
    for _, token in asked.picks:
        check_whole("pick", token, entry.config.d_vocab - 1, "Write STEP:ID; the id is a token of the vocabulary.")
    stop = asked.stop.replace("\\n", "\n")
    return GenerationKey(entry.name, asked.text, asked.bos, asked.sampling, stop, asked.picks, asked.compare)


def spelled(model: LanguageModel, tokens: Sequence[int]) -> tuple[str, bool]:
    """What to write as a text to get these tokens, and whether with a start token."""
    bos = bool(tokens) and tokens[0] == model.tokenizer.start_id
    return model.spelled(list(tokens[1:] if bos else tokens)), bos


@dataclass(frozen=True)
class Made:
    """A token made, and the probability that the model itself gave it."""

    step: Step
    prob: float


class Generation:
    """One text being made. `made` only ever grows; `ended` says that the text itself came to an end."""

    def __init__(self, model: LanguageModel, key: GenerationKey) -> None:
        self.model, self.key = model, key
        self.made: list[Made] = []
        self.prompt = model.encode(key.text, bos=key.bos)
        self._lock = threading.Lock()
        self._error: ReaderError | None = None
        self._steps: Iterator[Step] | None = model.generate(
            self.prompt, MOST_TOKENS, stop=key.stop, forced=dict(key.picks), compare=key.compare, **vars(key.sampling)
        )

    @property
    def ended(self) -> bool:
        return bool(self.made) and self.made[-1].step.end in ("end token", "stop text")

    def complete(self, n: int) -> bool:
        """Whether the first `n` tokens are there, or all there will ever be."""
        return len(self.made) >= n or self.ended

    def advance(self, n: int, seconds: float) -> None:
        """Go on towards `n` tokens for so long; one token is made however long it takes."""
        until = time.monotonic() + seconds
        with self._lock:
            while not self.complete(n):
                self._one()
                if time.monotonic() >= until:
                    return

    def _one(self) -> None:
        if self._error:
            raise self._error
        try:
            step = next(self._steps) if self._steps else None
        except ReaderError as error:
            self._error = error
            raise
        assert step is not None
        prob = step.prob
        self.made.append(Made(replace(step, choice=replace(step.choice)), prob))  # without the arrays that `prob` left
        if step.end:
            self._steps = None  # the cache of keys and values goes with it

    @property
    def nbytes(self) -> int:
        """The logits of each step, and the keys and values while it can go on."""
        c = self.model.config
        cache = 2 * c.n_layer * c.n_ctx * c.n_kv_head * c.d_head if self._steps else 0
        return 4 * (cache + len(self.made) * c.d_vocab)


class Generations:
    """Generations by their key, within a budget of memory. The latest stays whatever its size: it is being read."""

    def __init__(self, models: ModelStore, settings: AppSettings) -> None:
        self._models = models
        self.kept = BudgetedStore[GenerationKey, Generation](
            settings.generation_memory_mb * 2**20,
            lambda generation: generation.nbytes,
            keeps_latest=True,
            accepts=lambda generation: models.is_current(generation.model),
        )
        self._settings = settings
        self._pool = ThreadPoolExecutor(settings.run_threads, thread_name_prefix="generate")
        self._lock = threading.Lock()
        self._waiting = 0
        models.on_unload(lambda model: self.kept.forget(lambda key: key.model == model))

    async def advance(self, key: GenerationKey, n: int, seconds: float) -> Generation:
        """The generation, gone on towards `n` tokens for about so many seconds. Raises ReaderError, Busy, TooMany."""
        with self._lock:
            if self._waiting >= self._settings.run_queue:
                raise Busy("Too many texts are being made already.")
            if (known := self.kept.get(key)) is None or not known.complete(n):
                spend()
            self._waiting += 1
        try:
            with self._models.in_use(key.model), self.kept.in_use(key):
                await self._models.ready(key.model)
                return await asyncio.wrap_future(self._pool.submit(self._advance, key, n, seconds))
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _advance(self, key: GenerationKey, n: int, seconds: float) -> Generation:
        model = self._models.get(key.model)
        use_threads(model.n_parameters, self._settings.threads)
        generation = self.kept.once(key, lambda: Generation(model, key))
        try:
            generation.advance(n, seconds)
        finally:
            self.kept.keep(key, generation)
        return generation
