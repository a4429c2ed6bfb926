"""Pictures of shared pages: drawn once, kept while memory lasts, the least recently used dropped first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from cachetools import LRUCache

MEMORY = 16 * 2**20  # bytes; some three hundred pictures
AT_ONCE = 2  # drawn at the same time; a third waits, so that readers' threads are left for pages


class CardStore:
    """PNG files by what they show."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._kept: LRUCache[Hashable, bytes] = LRUCache(memory, getsizeof=len)
        self._lock = threading.Lock()
        self._turn = threading.BoundedSemaphore(AT_ONCE)

    def get(self, key: Hashable, draw: Callable[[], bytes]) -> bytes:
        """The picture that goes by `key`; `draw` makes it where it is not kept. For use in a thread."""
        with self._lock:
            if (kept := self._kept.get(key)) is not None:
                return kept
        with self._turn:
            made = draw()
        with self._lock:
            if len(made) <= self._kept.maxsize:
                self._kept[key] = made
        return made

    @property
    def nbytes(self) -> int:
        with self._lock:
            return int(self._kept.currsize)
