"""What is kept between requests: values within a budget, the least recently used dropped first, none while in use."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Busy(Exception):
    """Too much is waiting already, or in use; the message says what."""


class BudgetedStore(Generic[K, V]):
    """Values by key, safe to use from any thread; whoever asks for a value that is being made waits for that one.

    `size` weighs a value in the unit of `budget`; `keep` weighs one that may have grown again. A value that alone
    exceeds the budget is not kept, unless it is the latest and the store `keeps_latest`. `most` bounds their number.
    `accepts` refuses a value that is out of date by the time it is made. `shrink(value, excess)` lets values give up
    what they can make again before any is dropped. `on_drop` hears which key was dropped, after the lock is released.
    """

    def __init__(
        self, budget: int, size: Callable[[V], int], *, most: int | None = None, keeps_latest: bool = False,
        accepts: Callable[[V], bool] = lambda value: True, shrink: Callable[[V, int], None] | None = None,
        on_drop: Callable[[K], None] = lambda key: None,
    ) -> None:  # fmt: skip
        self.budget, self.most = budget, most
        self.lock = threading.RLock()
        self._size, self._accepts, self._shrink, self._on_drop = size, accepts, shrink, on_drop
        self._keeps_latest = keeps_latest
        self._changed = threading.Condition(self.lock)
        self._values: OrderedDict[K, V] = OrderedDict()  # the least recently used first
        self._sizes: dict[K, int] = {}
        self._total = 0  # of the sizes
        self._reserved: dict[K, int] = {}
        self._users: Counter[K] = Counter()
        self._flights: dict[K, Future[V]] = {}

    # -- what is kept

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    @property
    def values(self) -> list[V]:
        """All that are kept, the least recently used first."""
        with self.lock:
            return list(self._values.values())

    @property
    def nbytes(self) -> int:
        """The sizes of all that are kept, as each was last weighed."""
        return self._total

    def get(self, key: K) -> V | None:
        """The value, which is now the latest used."""
        with self.lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def keep(self, key: K, value: V) -> None:
        """Keep the value as the latest used, as large as it is now."""
        size = self._size(value)
        with self.lock:
            self._reserved.pop(key, None)
            if not self._accepts(value):
                return
            self._values[key] = value
            self._weigh(key, size)
            self._values.move_to_end(key)
        self._trim()

    def forget(self, is_meant: Callable[[K], bool]) -> None:
        """Let go of all values whose keys are meant, in use or not."""
        with self.lock:
            for key in filter(is_meant, list(self._values)):
                self._drop(key)

    # -- what is in use

    @contextmanager
    def in_use(self, key: K) -> Iterator[None]:
        """While this lasts, the value of that key is not dropped, once it is kept."""
        self.hold(key)
        try:
            yield
        finally:
            self.release(key)

    def hold(self, key: K) -> None:
        """As `in_use`, until it is released as often as held."""
        with self.lock:
            self._users[key] += 1
            self.get(key)

    def release(self, key: K) -> None:
        with self.lock:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
        self._trim()

    # -- made once for all who ask

    @property
    def n_making(self) -> int:
        """How many values are being made, or wait for it."""
        return len(self._flights)

    def is_making(self, key: K) -> bool:
        return key in self._flights

    def once(self, key: K, make: Callable[[], V]) -> V:
        """The value, made in this thread where it is neither kept nor being made. Raises what `make` raises."""
        own: Future[V] = Future()
        with self.lock:
            flight = self._flight(key) or own
            if flight is own:
                self._flights[key] = own
        if flight is own:
            try:
                own.set_result(self._make(key, make))
            except BaseException as error:
                own.set_exception(error)
        return flight.result()

    def submit(
        self, key: K, pool: Executor, make: Callable[[], V], admit: Callable[[], None] = lambda: None
    ) -> Future[V]:
        """The same in a thread of `pool`. `admit` may refuse to begin, by raising. A failure is not kept."""
        with self.lock:
            flight = self._flight(key)
            if flight is None:
                admit()
                flight = self._flights[key] = pool.submit(self._make, key, make)
            return flight

    def _flight(self, key: K) -> Future[V] | None:
        """The value as kept or under way."""
        if key not in self._values:
            return self._flights.get(key)
        self._values.move_to_end(key)
        kept: Future[V] = Future()
        kept.set_result(self._values[key])
        return kept

    def _make(self, key: K, make: Callable[[], V]) -> V:
        try:
            value = make()
            self.keep(key, value)
            return value
        finally:
            with self._changed:
                self._flights.pop(key, None)
                self._reserved.pop(key, None)
                self._changed.notify_all()

    # -- room

    def reserve(self, key: K, size: int, seconds: float) -> bool:
        """Set room aside for what is being made under `key`; False where what is in use leaves none in that time."""
        until, dropped = time.monotonic() + seconds, list[K]()
        with self._changed:
            while (excess := self.nbytes + sum(self._reserved.values()) + size - self.budget) > 0:
                idle = self._idle()
                if sum(self._sizes[key] for key in idle) >= excess:
                    dropped.append(idle[0])
                    self._drop(idle[0])
                elif not self._changed.wait(until - time.monotonic()):
                    break
            else:
                self._reserved[key] = size
        self._tell(dropped)
        return excess <= 0

    def _trim(self) -> None:
        """Shrink, then drop until all fit: first what alone is too large, then the least recently used."""
        dropped: list[K] = []
        with self._changed:
            self._shrink_all()
            while self._is_over() and (idle := self._idle()):
                too_large = [key for key in idle if self._sizes[key] > self.budget]
                dropped.append((too_large or idle)[0])
                self._drop(dropped[-1])
            self._changed.notify_all()
        self._tell(dropped)

    def _is_over(self) -> bool:
        return self.nbytes > self.budget or (self.most is not None and len(self._values) > self.most)

    def _idle(self) -> list[K]:
        """The keys whose values may be dropped, the least recently used first."""
        idle = [key for key in self._values if not self._users[key]]
        latest = next(reversed(self._values), None)
        return [key for key in idle if key != latest] if self._keeps_latest else idle

    def _shrink_all(self) -> None:
        for key, value in self._values.items():
            if not self._shrink or self._total <= self.budget:
                return
            self._shrink(value, self._total - self.budget)
            self._weigh(key, self._size(value))

    def _weigh(self, key: K, size: int) -> None:
        self._total += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def _drop(self, key: K) -> None:
        del self._values[key]
        self._total -= self._sizes.pop(key)

    def _tell(self, dropped: list[K]) -> None:
        for key in dropped:
            self._on_drop(key)
