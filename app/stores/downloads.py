"""Checkpoints on their way from the hub: one at a time in a thread, with progress, and a way to stop.

A download that broke off or was stopped is kept as far as it came; the next one goes on from there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from model.errors import ReaderError
from model.weights import hub
from model.weights.hub import Published

log = logging.getLogger(__name__)

SURE = 1.0  # seconds after which the time left can be told

Stage = Literal["waiting", "running", "checking", "done", "cancelled", "failed"]


class CalledOff(Exception):
    """Whoever asked for the download has called it off."""


@dataclass
class Download:
    """One checkpoint being fetched: `done` of `total` bytes; `message` and `hint` say why it failed."""

    one: Published
    total: int
    stage: Stage = "waiting"
    done: int = 0
    message: str = ""
    hint: str = ""
    began: float = 0.0
    found: int | None = field(default=None, repr=False)  # bytes that an earlier try left
    is_called_off: bool = field(default=False, repr=False)

    @property
    def is_over(self) -> bool:
        return self.stage in ("done", "cancelled", "failed")

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At the speed so far; None while that says nothing."""
        spent = time.monotonic() - self.began
        came = self.done - (self.found or 0)
        if self.stage != "running" or spent < SURE or came <= 0:
            return None
        return spent * (self.total - self.done) / came

    def advance(self, done: int, total: int) -> None:
        """Note how far it is. Raises CalledOff where it was called off."""
        if self.is_called_off:
            raise CalledOff
        if self.found is None:
            self.found = done
        self.done, self.total = done, total
        self.stage = "checking" if done >= total else "running"


class Downloads:
    """Downloads by the model's name. `on_done` hears where a checkpoint lies as soon as it is there."""

    def __init__(self, on_done: Callable[[Published, Path], None]) -> None:
        self._on_done = on_done
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="download")
        self._lock = threading.Lock()
        self._all: dict[str, Download] = {}

    def find(self, name: str) -> Download | None:
        """The last download of that model."""
        return self._all.get(name)

    @property
    def current(self) -> list[Download]:
        """Those that wait or go on."""
        return [download for download in self._all.values() if not download.is_over]

    def start(self, one: Published) -> Download:
        """The download of a checkpoint: the one under way, or a new one."""
        with self._lock:
            found = self._all.get(one.name)
            if found is not None and not found.is_over:
                return found
            download = self._all[one.name] = Download(one, one.size, done=hub.unfinished(one))
        self._pool.submit(self._work, download)
        return download

    def cancel(self, name: str) -> None:
        """Call it off: at once while it waits, within a mebibyte while it runs."""
        with self._lock:
            download = self._all.get(name)
            if download is not None and not download.is_over:
                download.is_called_off = True
                if download.stage == "waiting":
                    download.stage = "cancelled"

    def close(self) -> None:
        """Call all off; what has come is kept."""
        for name in list(self._all):
            self.cancel(name)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, download: Download) -> None:
        with self._lock:
            if download.stage != "waiting":
                return
            download.stage, download.began = "running", time.monotonic()
        try:
            self._on_done(download.one, hub.fetch(download.one, download.advance))
            download.stage = "done"
        except CalledOff:
            download.stage = "cancelled"
        except ReaderError as error:
            download.message, download.hint = error.message, error.hint
            download.stage = "failed"
            log.warning("%s %s", error.message, error.hint)
        except Exception:
            download.message = "The fault is in this program, and has been logged."
            download.stage = "failed"
            log.exception("The download of %s failed", download.one.name)
