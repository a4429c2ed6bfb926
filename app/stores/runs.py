"""Runs: computed in a few threads of their own, once for all who ask at the same time, kept while memory lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import NamedTuple, TypeVar

from app.request.state import RunQuery
from app.server.limits import spend
from app.server.process import use_threads
from app.settings import AppSettings
from app.stores.budgeted import BudgetedStore, Busy
from app.stores.catalogue import Catalogue
from app.stores.models import ModelStore
from model import Run
from model.errors import AddressError
from model.ops.update import Optimizer, Rate
from model.runtime.learn import suggested_rate

T = TypeVar("T")

READERS = 8  # threads that explain and render; a long text's run, which computes its blocks again, has one for itself
MOST_RATES = 6  # learning rates whose steps are kept with one run

RateKey = tuple[float | None, Optimizer]  # how steps are taken: η (None: measured) and the optimizer
USUAL_RATE: RateKey = (None, "sgd")


class RunKey(NamedTuple):
    """What makes two requests the same run."""

    model: str
    text: str
    target: str
    bos: bool
    changes: tuple[str, ...] = ()


class KeptRun:
    """A run, and the same run for each of the latest learning rates: no step is taken twice."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._by_rate = BudgetedStore[RateKey, Run](MOST_RATES, lambda run: 1)

    def with_steps(self, rate: RateKey) -> Run:
        """The run with steps taken at that rate."""
        if rate == USUAL_RATE or self.run.patches or self.run.is_long:  # these take no steps
            return self.run
        return self._by_rate.once(rate, lambda: self._at(*rate))

    def _at(self, eta: float | None, optimizer: Optimizer) -> Run:
        return self.run.at_rate(suggested_rate(self.run, optimizer) if eta is None else Rate(eta, optimizer))

    @property
    def nbytes(self) -> int:
        """Bytes of the run and of the steps taken from it at every rate."""
        bare = self.run.at_rate(None).nbytes
        return self.run.nbytes + sum(max(other.nbytes - bare, 0) for other in self._by_rate.values)

    def shrink(self, excess: int) -> None:
        """A long run gives up what it can compute again."""
        if self.run.is_long:
            self.run.shed(excess)


class RunStore:
    """Runs by what made them, within a budget of memory. A run grows while it is read: sites are derived on demand."""

    def __init__(self, models: ModelStore, settings: AppSettings) -> None:
        self.models = models
        self.kept = BudgetedStore[RunKey, KeptRun](
            settings.run_memory_mb * 2**20,
            lambda kept: kept.nbytes,
            accepts=lambda kept: models.is_current(kept.run.model),
            shrink=KeptRun.shrink,
        )
        self._settings = settings
        self._pool = ThreadPoolExecutor(settings.run_threads, thread_name_prefix="run")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="read")
        self._long_reader = ThreadPoolExecutor(1, thread_name_prefix="read-long")
        models.on_unload(lambda model: self.kept.forget(lambda key: key.model == model))

    async def use(self, asked: RunQuery, work: Callable[[Run], T]) -> T:
        """What `work` makes of the run that is asked for, done in a thread."""
        key = self.key(asked)
        with self.models.in_use(key.model), self.kept.in_use(key):
            await self.models.ready(key.model)  # not in a thread that other models' runs wait for
            kept = await asyncio.shield(asyncio.wrap_future(self.submit(key)))
            pool = self._long_reader if kept.run.is_long else self._readers
            return await self._in(pool, partial(self._work, key, kept, asked, work))

    def use_here(self, asked: RunQuery, work: Callable[[Run], T]) -> T:
        """The same in the caller's own thread, which waits."""
        key = self.key(asked)
        with self.models.in_use(key.model), self.kept.in_use(key):
            self.models.get(key.model)
            return self._work(key, self.submit(key).result(), asked, work)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Anything that computes, off the event loop."""
        return await self._in(self._readers, work)

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        context = copy_context()  # URLs are written for the request that asks
        return await asyncio.wrap_future(pool.submit(context.run, work))

    def key(self, asked: RunQuery) -> RunKey:
        """Raises UnknownModel."""
        return key_of(self.models, asked)

    def submit(self, key: RunKey) -> Future[KeptRun]:
        """The run, kept or under way or now begun. A failed one is forgotten, so that the next try starts afresh."""
        return self.kept.submit(key, self._pool, lambda: KeptRun(self._compute(key)), self._admit)

    def close(self) -> None:
        """Begin nothing more; what waits is given up."""
        for pool in (self._pool, self._readers, self._long_reader):
            pool.shutdown(wait=False, cancel_futures=True)

    def _admit(self) -> None:
        if self.kept.n_making >= self._settings.run_queue:
            raise Busy("Too many runs are waiting already.")
        spend()

    def _work(self, key: RunKey, kept: KeptRun, asked: RunQuery, work: Callable[[Run], T]) -> T:
        use_threads(kept.run.model.n_parameters, self._settings.threads)
        try:
            return work(kept.with_steps(rate_key(asked)))
        finally:
            self.kept.keep(key, kept)

    def _compute(self, key: RunKey) -> Run:
        use_threads(self.models.entry(key.model).n_parameters, self._settings.threads)
        if not key.changes:
            whole = self._settings.long_run_mb * 2**20
            return self.models.get(key.model).run(key.text, key.target or None, bos=key.bos, whole=whole)
        unchanged = key._replace(changes=())
        kept = self.kept.get(unchanged)
        base = kept.run if kept else self._compute(unchanged)
        try:
            return base.changed(key.changes)
        except AddressError as error:
            error.part = "set"
            raise


def key_of(models: Catalogue, asked: RunQuery) -> RunKey:
    """What makes a run the same as another's; without a text it is of the model's own. Raises UnknownModel."""
    entry = models.entry(asked.model)
    text = entry.text if asked.text is None else asked.text
    return RunKey(entry.name, text, asked.target, asked.bos, asked.changes)


def rate_key(asked: RunQuery) -> RateKey:
    """How learning steps are taken."""
    return asked.eta, asked.optimizer
