"""Runs: computed in a few threads of their own, once for all who ask at the same time, kept while memory lasts."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import NamedTuple, TypeVar

from app.request.state import State
from app.server.limits import spend
from app.server.process import use_threads
from app.settings import AppSettings
from app.stores.models import Busy as Busy
from app.stores.models import ModelStore
from model import Run
from model.errors import AddressError
from model.ops.update import Optimizer, Rate
from model.runtime.slope import suggested_rate

T = TypeVar("T")

READERS = 8  # threads that explain and render; a long text's run, which computes its blocks again, has one for itself
MOST_VIEWS = 6  # learning rates whose steps are kept with one run

Way = tuple[float | None, Optimizer]  # how steps are taken: η (None: measured) and the optimizer
USUAL: Way = (None, "sgd")


class Key(NamedTuple):
    """What makes two requests the same run."""

    model: str
    text: str
    target: str
    bos: bool
    changes: tuple[str, ...] = ()


class RunStore:
    """Runs by what made them, the least recently used ones dropped once all together exceed the memory budget.

    A run grows while it is read (sites are derived on demand), so it is weighed again after each use. Before a run is
    dropped, long ones give up what they can compute again.
    """

    def __init__(self, models: ModelStore, settings: AppSettings) -> None:
        self.models = models
        self._budget = settings.run_memory_mb * 2**20
        self._whole = settings.long_run_mb * 2**20
        self._queue = settings.run_queue
        self._threads = settings.threads
        self._pool = ThreadPoolExecutor(settings.run_threads, thread_name_prefix="run")
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, Run] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._views: dict[Key, OrderedDict[Way, Run]] = {}
        self._flights: dict[Key, Future[Run]] = {}
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="read")
        self._long_reader = ThreadPoolExecutor(1, thread_name_prefix="read-long")
        models.on_unload(self._forget)

    async def use(self, state: State, work: Callable[[Run], T]) -> T:
        """What `work` makes of the run that `state` names, done in a thread."""
        key = self.key(state)
        with self.models.in_use(key.model):
            await self.models.ready(key.model)  # not in a thread that other models' runs wait for
            run = await asyncio.shield(asyncio.wrap_future(self.submit(key)))
            try:
                return await self._in(
                    self._long_reader if run.is_long else self._readers, lambda: self._work(key, run, state, work)
                )
            finally:
                self._keep(key, run)

    def use_here(self, state: State, work: Callable[[Run], T]) -> T:
        """The same in the caller's own thread, which waits."""
        key = self.key(state)
        with self.models.in_use(key.model):
            self.models.get(key.model)
            run = self.submit(key).result()
            try:
                return self._work(key, run, state, work)
            finally:
                self._keep(key, run)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Anything that computes, off the event loop."""
        return await self._in(self._readers, work)

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        context = copy_context()  # URLs are written for the request that asks
        return await asyncio.wrap_future(pool.submit(context.run, work))

    def key(self, state: State) -> Key:
        """Raises UnknownModel."""
        return key_of(self.models, state)

    def submit(self, key: Key) -> Future[Run]:
        """The run, kept or under way or now begun. A failed one is forgotten, so that the next try starts afresh."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                done: Future[Run] = Future()
                done.set_result(self._kept[key])
                return done
            if key in self._flights:
                return self._flights[key]
            if len(self._flights) >= self._queue:
                raise Busy("Many runs are waiting already.")
            spend()
            flight = self._flights[key] = self._pool.submit(self._compute, key)
        flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    @property
    def n_waiting(self) -> int:
        """How many runs are being computed or wait for it."""
        return len(self._flights)

    def close(self) -> None:
        """Begin nothing more; what waits is given up."""
        for pool in (self._pool, self._readers, self._long_reader):
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def nbytes(self) -> int:
        """Bytes of all kept runs when each was last used."""
        with self._lock:
            return sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._kept)

    def _work(self, key: Key, run: Run, state: State, work: Callable[[Run], T]) -> T:
        use_threads(run.model.n_parameters, self._threads)
        return work(self._view(key, run, way(state)))

    def _compute(self, key: Key) -> Run:
        use_threads(self.models.entry(key.model).n_parameters, self._threads)
        if not key.changes:
            return self.models.get(key.model).run(key.text, key.target or None, bos=key.bos, whole=self._whole)
        base = self._kept.get(key._replace(changes=())) or self._compute(key._replace(changes=()))
        try:
            return base.changed(key.changes)
        except AddressError as error:
            error.part = "set"
            raise

    def _view(self, key: Key, run: Run, asked: Way) -> Run:
        """The run with steps taken in the way asked for; kept with it, so that no step is taken twice."""
        if asked == USUAL or run.patches or run.is_long:  # these take no steps
            return run
        with self._lock:
            views = self._views.setdefault(key, OrderedDict())
            if asked in views:
                views.move_to_end(asked)
                return views[asked]
        eta, optimizer = asked
        made = run.at_rate(suggested_rate(run, optimizer) if eta is None else Rate(eta, optimizer))
        with self._lock:
            found = views.setdefault(asked, made)
            while len(views) > MOST_VIEWS:
                views.popitem(last=False)
        return found

    def _landed(self, key: Key, flight: Future[Run]) -> None:
        if not flight.cancelled() and flight.exception() is None:
            self._keep(key, flight.result())
        with self._lock:
            self._flights.pop(key, None)

    def _keep(self, key: Key, run: Run) -> None:
        """Weigh the run and make it the latest used; drop the oldest until all fit, itself if it alone does not."""
        size = self._size(key, run)
        with self._lock:
            if not self.models.is_current(run.model):
                return
            if key in self._kept and self._kept[key] is not run:
                self._views.pop(key, None)
            self._kept[key] = run
            self._sizes[key] = size
            self._kept.move_to_end(key)
            self._shed()
            if self._sizes[key] > self._budget:
                self._drop(key)
            while sum(self._sizes.values()) > self._budget:
                self._drop(next(iter(self._kept)))

    def _shed(self) -> None:
        """What can be computed again goes first, that of the longest unused run before the others'."""
        for key, run in self._kept.items():
            over = sum(self._sizes.values()) - self._budget
            if over > 0 and run.is_long:
                before = run.nbytes
                run.shed(over)
                self._sizes[key] -= before - run.nbytes

    def _forget(self, model: str) -> None:
        """Drop all runs of a model that was unloaded: they would hold its weights."""
        with self._lock:
            for key in [key for key in self._kept if key.model == model]:
                self._drop(key)

    def _size(self, key: Key, run: Run) -> int:
        """Bytes of the run and of the steps taken from it at every rate."""
        with self._lock:
            views = list(self._views.get(key, {}).values())
        bare = run.at_rate(None).nbytes
        return run.nbytes + sum(max(view.nbytes - bare, 0) for view in views)

    def _drop(self, key: Key) -> None:
        del self._kept[key], self._sizes[key]
        self._views.pop(key, None)


def key_of(models: ModelStore, state: State) -> Key:
    """What makes the state's run the same as another's. Raises UnknownModel."""
    return Key(models.entry(state.model).name, state.text, state.target, state.bos, state.changes)


def way(state: State) -> Way:
    """How the state's learning steps are taken."""
    return state.eta, state.optimizer
