"""Pictures of shared pages: drawn once, kept while memory lasts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from app.stores.budgeted import BudgetedStore

MEMORY = 16 * 2**20  # bytes; some three hundred pictures
AT_ONCE = 2  # drawn at the same time; a third waits, so that readers' threads are left for pages


class CardStore:
    """PNG files by what they show."""

    def __init__(self, memory: int = MEMORY) -> None:
        self.kept = BudgetedStore[Hashable, bytes](memory, len)
        self._turn = threading.BoundedSemaphore(AT_ONCE)

    def get(self, key: Hashable, draw: Callable[[], bytes]) -> bytes:
        """The picture that goes by `key`; `draw` makes it where it is not kept. For use in a thread."""

        def in_turn() -> bytes:
            with self._turn:
                return draw()

        return self.kept.once(key, in_turn)
