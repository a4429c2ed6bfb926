"""Checkpoints on their way from the hub: one at a time in a thread, with progress, and a way to stop.

A download that broke off or was stopped is kept as far as it came; the next one goes on from there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from app.stores.work import Work
from model.errors import ReaderError
from model.weights import hub
from model.weights.hub import Published

log = logging.getLogger(__name__)


@dataclass
class Download(Work):
    """One checkpoint being fetched, in bytes."""

    published: Published
    _has_noted: bool = field(default=False, init=False, repr=False)

    def note(self, done: int, total: int) -> None:
        """How far it is, at first how much an earlier try left. Raises Cancelled where it was cancelled."""
        self.advance(done)
        if not self._has_noted:
            self.found, self._has_noted = done, True
        self.total = total
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

    def start(self, published: Published) -> Download:
        """The download of a checkpoint: the one under way, or a new one."""
        with self._lock:
            found = self._all.get(published.name)
            if found is not None and not found.is_over:
                return found
            download = Download(published.size, published, done=hub.unfinished(published))
            self._all[published.name] = download
        self._pool.submit(download.perform, lambda: self._fetch(download), f"The download of {published.name}")
        return download

    def cancel(self, name: str) -> None:
        """Cancel it: at once while it waits, within a mebibyte while it runs."""
        if download := self.find(name):
            download.cancel()

    def close(self) -> None:
        """Cancel all; what has come is kept."""
        for download in self.current:
            download.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, download: Download) -> None:
        try:
            self._on_done(download.published, hub.fetch(download.published, download.note))
        except ReaderError as error:
            log.warning("%s %s", error.message, error.hint)
            raise
