"""Tensors that can be computed again, kept while there is room."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from weakref import WeakSet

from torch import Tensor

_all: WeakSet[Scratch] = WeakSet()
_guard = threading.Lock()


class Scratch:
    """Tensors by name, at most `most` bytes of them: those not read for longest go first.

    What is put in stays at least until the next time that room is made, even where it alone is larger. Several threads
    may use it at once. All that there are share the room of the largest: one that is used drives out what others hold.
    """

    def __init__(self, most: int) -> None:
        self.most, self.nbytes, self.used = most, 0, time.monotonic()
        self._held: OrderedDict[str, Tensor] = OrderedDict()
        self._lock = threading.Lock()
        with _guard:
            _all.add(self)

    def get(self, name: str) -> Tensor | None:
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
            return self._held.get(name)

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Keep tensors, each with memory of its own, so that dropping it frees what it counts for."""
        self.make_room(sum(tensor.nbytes for tensor in tensors.values()))
        own = {name: t if t.untyped_storage().nbytes() == t.nbytes else t.clone() for name, t in tensors.items()}
        with self._lock:
            for name, tensor in own.items():
                self._forget(name)
                self._held[name] = tensor
                self.nbytes += tensor.nbytes

    def make_room(self, nbytes: int) -> None:
        """Drop the longest unread until so many bytes fit beside the rest; first what is held elsewhere."""
        self.used = time.monotonic()
        with _guard:
            others = sorted((one for one in _all if one is not self), key=lambda one: one.used)
        held = [one.nbytes for one in others]
        over = self.nbytes + nbytes + sum(held) - max([self.most, *(one.most for one in others)])
        for other, size in zip(others, held, strict=True):
            if over > 0:
                other.shed(over)
                over -= size - other.nbytes
        self.shed(self.nbytes + nbytes - self.most)

    def shed(self, nbytes: int) -> None:
        """Drop the longest unread until at least so many bytes are free again, or nothing is left."""
        with self._lock:
            goal = min(self.nbytes - nbytes, self.nbytes)
            while self._held and self.nbytes > goal:
                self._forget(next(iter(self._held)))

    def drop(self, *names: str) -> None:
        """Forget these, where they are held."""
        with self._lock:
            for name in names:
                self._forget(name)

    def _forget(self, name: str) -> None:
        gone = self._held.pop(name, None)
        self.nbytes -= 0 if gone is None else gone.nbytes
