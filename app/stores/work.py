"""A piece of long work: how far it is, when it will be done, and a way to cancel it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from model.errors import ReaderError

log = logging.getLogger(__name__)

Stage = Literal["waiting", "running", "checking", "done", "cancelled", "failed"]


class Cancelled(Exception):
    """Whoever asked for the work has cancelled it."""


@dataclass
class Work:
    """`done` of `total` units, of which `found` were there before it began. `error` says what readers may know."""

    SURE: ClassVar[float] = 1.0  # seconds of work after which the time left can be told

    total: float
    stage: Stage = field(default="waiting", kw_only=True)
    done: float = field(default=0.0, kw_only=True)
    found: float = field(default=0.0, kw_only=True, repr=False)
    began: float = field(default=0.0, init=False)
    ended: float = field(default=0.0, init=False)
    error: ReaderError | None = field(default=None, init=False)
    _is_cancelled: bool = field(default=False, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def is_over(self) -> bool:
        return self.stage in ("done", "cancelled", "failed")

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return 1.0 if self.stage == "done" else min(self.done / self.total, 1.0) if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """As it has gone so far; None while that says nothing."""
        spent, achieved = time.monotonic() - self.began, self.done - self.found
        if self.stage != "running" or spent < self.SURE or achieved <= 0:
            return None
        return spent * (self.total - self.done) / achieved

    def advance(self, done: float) -> None:
        """Note how far it is. Raises Cancelled where it was cancelled."""
        if self._is_cancelled:
            raise Cancelled
        self.done = done

    def cancel(self) -> None:
        """End it: at once while it waits, when it next notes how far it is while it runs."""
        with self._lock:
            self._is_cancelled = not self.is_over
            if self.stage == "waiting":
                self.stage = "cancelled"

    def perform(self, work: Callable[[], object], called: str) -> None:
        """Do it in this thread, unless it was cancelled while it waited. What goes wrong is noted, not raised."""
        with self._lock:
            if self.stage != "waiting":
                return
            self.stage, self.began = "running", time.monotonic()
        stage: Stage = "failed"
        try:
            work()
            stage = "done"
        except Cancelled:
            stage = "cancelled"
        except ReaderError as error:
            self.error = error
        except Exception:
            log.exception("%s failed", called)
        self.stage, self.ended = stage, time.monotonic()
