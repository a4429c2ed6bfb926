"""Long work in the background: in a few threads, with progress and cancel, once for all who ask for the same.

A job's id is made from what it computes, so a page's URL is enough to find it, or to start it again after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from app.request.state import State
from app.server.limits import CLIENT, TooMany, spend
from app.settings import AppSettings
from app.stores.learned import Learned, learn, work
from app.stores.models import ModelStore
from app.stores.runs import (
    Busy,
    RunStore,
    key_of,
    way,
)
from model import Run
from model.errors import ReaderError

log = logging.getLogger(__name__)

MOST_KEPT = 500  # finished jobs, whatever their size
TICK = 0.02  # seconds between two looks at a job that is waited for
SOON = 5.0  # seconds after which a client may try again
SURE = 0.4  # seconds of work after which the time left can be told

Stage = Literal["waiting", "running", "done", "cancelled", "failed"]


class Cancelled(Exception):
    """The reader has called the work off."""


@dataclass
class Job:
    """One piece of work: `done` of `total` units; `result` or `error` at its end."""

    id: str
    state: State
    total: float
    stage: Stage = "waiting"
    done: float = 0.0
    asked: float = field(default_factory=time.monotonic)
    began: float = 0.0
    ended: float = 0.0
    result: Learned | None = None
    error: ReaderError | None = None
    is_called_off: bool = field(default=False, repr=False)
    client: str = field(default="", repr=False)  # who asked first

    @property
    def is_over(self) -> bool:
        return self.stage in ("done", "cancelled", "failed")

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1."""
        return 1.0 if self.stage == "done" else min(self.done / self.total, 1.0)

    @property
    def seconds_left(self) -> float | None:
        """As the work has gone so far; None while that says nothing."""
        spent = time.monotonic() - self.began
        if self.stage != "running" or self.done <= 0 or spent < SURE:
            return None
        return spent * (self.total - self.done) / self.done

    def advance(self, done: float) -> None:
        """Note how far the work is. Raises Cancelled where it was called off."""
        if self.is_called_off:
            raise Cancelled
        self.done = done


def job_id(models: ModelStore, state: State) -> str:
    """The name of the work that a state asks for, the same in every process. Raises UnknownModel."""
    parts = [*key_of(models, state), *way(state), state.steps]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


class JobStore:
    """Jobs by id. At most `job_queue` wait; finished ones are kept while their results fit in the memory budget."""

    def __init__(self, runs: RunStore, settings: AppSettings) -> None:
        self._runs = runs
        self._queue = settings.job_queue
        self._per_client = settings.jobs_per_client
        self._budget = settings.job_memory_mb * 2**20
        self._pool = ThreadPoolExecutor(settings.job_workers, thread_name_prefix="job")
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._is_closed = False

    def id(self, state: State) -> str:
        """The name of the work that a state asks for. Raises UnknownModel."""
        return job_id(self._runs.models, state)

    def close(self) -> None:
        """Call all off, those that wait at once, those that run before their next step; begin none any more."""
        self._is_closed = True
        for id in list(self._jobs):
            self.cancel(id)
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def n_waiting(self) -> int:
        """How many jobs wait."""
        with self._lock:
            return sum(job.stage == "waiting" for job in self._jobs.values())

    @property
    def n_unfinished(self) -> int:
        """How many jobs wait or run."""
        with self._lock:
            return sum(not job.is_over for job in self._jobs.values())

    def find(self, id: str) -> Job | None:
        """A job that waits, runs or is kept."""
        with self._lock:
            return self._jobs.get(id)

    def start(self, state: State) -> Job:
        """The job for a state: the one there is, or a new one. Raises Busy where too many wait already, TooMany."""
        id = self.id(state)
        with self._lock:
            job = self._jobs.get(id)
            if job is not None and job.stage not in ("cancelled", "failed"):
                self._jobs.move_to_end(id)
                return job
            if self._is_closed:
                raise Busy("The server is being stopped.")
            if sum(other.stage == "waiting" for other in self._jobs.values()) >= self._queue:
                raise Busy("Many jobs are waiting already.")
            client = CLIENT.get()
            own = sum(not other.is_over and other.client == client for other in self._jobs.values())
            if client and own >= self._per_client:
                raise TooMany(f"{own} jobs from your address wait or run already.", SOON)
            spend()
            job = self._jobs[id] = Job(id, state, work(state.steps), client=client)
            self._jobs.move_to_end(id)
        self._pool.submit(self._work, job)
        return job

    def cancel(self, id: str) -> Job | None:
        """Call a job off: at once while it waits, before its next step while it runs."""
        with self._lock:
            job = self._jobs.get(id)
            if job is not None and not job.is_over:
                job.is_called_off = True
                if job.stage == "waiting":
                    job.stage = "cancelled"
            return job

    def ahead_of(self, job: Job) -> int:
        """How many jobs come before one that waits."""
        with self._lock:
            others = [other for other in self._jobs.values() if other.id != job.id and not other.is_over]
        return sum(other.asked < job.asked for other in others)

    async def wait(self, job: Job, seconds: float) -> None:
        """Until the job is over, or so long."""
        until = time.monotonic() + seconds
        while not job.is_over and time.monotonic() < until:
            await asyncio.sleep(TICK)

    @property
    def nbytes(self) -> int:
        """Bytes of all results kept."""
        with self._lock:
            return self._size()

    def _work(self, job: Job) -> None:
        with self._lock:
            if job.stage != "waiting":
                return
            job.stage, job.began = "running", time.monotonic()
        stage: Stage = "failed"
        try:
            job.result = self._runs.use_here(job.state, lambda run: self._learn(job, run))
            stage = "done"
        except Cancelled:
            stage = "cancelled"
        except ReaderError as error:
            job.error = error
        except Exception:
            log.exception("Job %s failed", job.id)
        with self._lock:
            job.stage, job.ended = stage, time.monotonic()
            self._trim()

    def _learn(self, job: Job, run: Run) -> Learned:
        return learn(run, job.state.steps, job.advance)

    def _size(self) -> int:
        return sum(job.result.nbytes for job in self._jobs.values() if job.result)

    def _trim(self) -> None:
        """Forget the finished jobs that were asked for longest ago until the others fit."""
        for id in [id for id, job in self._jobs.items() if job.is_over]:
            if self._size() <= self._budget and len(self._jobs) <= MOST_KEPT:
                return
            del self._jobs[id]
