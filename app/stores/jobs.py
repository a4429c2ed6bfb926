"""Long work in the background: in a few threads, with progress and cancel, once for all who ask for the same.

A job's id is made from what it computes, so a page's URL is enough to find it, or to start it again after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from app.request.state import RunQuery, State
from app.server.limits import CLIENT, TooMany, spend
from app.settings import AppSettings
from app.stores.budgeted import BudgetedStore, Busy
from app.stores.catalogue import Catalogue
from app.stores.learned import Learned, learn, work
from app.stores.runs import RunStore, key_of, rate_key
from app.stores.work import Work
from model import Run

MOST_KEPT = 500  # finished jobs, whatever their size
TICK = 0.02  # seconds between two looks at a job that is waited for
SOON = 5.0  # seconds after which a client may try again


@dataclass
class Job(Work):
    """Learning steps of the run that `state` names; `result` at their end. `client` is who asked first."""

    SURE = 0.4

    id: str
    state: State
    result: Learned | None = None
    asked: float = field(default_factory=time.monotonic)
    client: str = field(default="", repr=False)

    @property
    def nbytes(self) -> int:
        return self.result.nbytes if self.result else 0


def job_id(models: Catalogue, asked: RunQuery) -> str:
    """The name of the work that is asked for, the same in every process. Raises UnknownModel."""
    parts = [*key_of(models, asked), *rate_key(asked), asked.steps]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


class JobStore:
    """Jobs by id. At most `job_queue` wait; finished ones are kept while their results fit in the memory budget."""

    def __init__(self, runs: RunStore, settings: AppSettings) -> None:
        self._runs = runs
        self._settings = settings
        self._pool = ThreadPoolExecutor(settings.job_workers, thread_name_prefix="job")
        self.kept = BudgetedStore[str, Job](settings.job_memory_mb * 2**20, lambda job: job.nbytes, most=MOST_KEPT)
        self._is_closed = False

    def id(self, asked: RunQuery) -> str:
        """The name of the work that is asked for. Raises UnknownModel."""
        return job_id(self._runs.models, asked)

    def close(self) -> None:
        """Cancel all, those that wait at once, those that run before their next step; begin none any more."""
        self._is_closed = True
        for job in self.unfinished:
            job.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def unfinished(self) -> list[Job]:
        """Those that wait or run."""
        return [job for job in self.kept.values if not job.is_over]

    @property
    def waiting(self) -> list[Job]:
        return [job for job in self.kept.values if job.stage == "waiting"]

    def find(self, id: str) -> Job | None:
        """A job that waits, runs or is kept."""
        return self.kept.get(id)

    def start(self, state: State) -> Job:
        """The job for a state: the one there is, or a new one. Raises Busy where too many wait already, TooMany."""
        id = self.id(state)
        with self.kept.lock:
            job = self.kept.get(id)
            if job is not None and job.stage not in ("cancelled", "failed"):
                return job
            self._admit(CLIENT.get())
            job = Job(work(state.steps), id, state, client=CLIENT.get())
            self.kept.hold(id)  # until it is over
            self.kept.keep(id, job)
        self._pool.submit(self._work, job)
        return job

    def cancel(self, id: str) -> None:
        """Cancel a job: at once while it waits, before its next step while it runs."""
        if job := self.find(id):
            job.cancel()

    def ahead_of(self, job: Job) -> int:
        """How many jobs come before one that waits."""
        return sum(other.asked < job.asked for other in self.unfinished)

    async def wait(self, job: Job, seconds: float) -> None:
        """Until the job is over, or so long."""
        until = time.monotonic() + seconds
        while not job.is_over and time.monotonic() < until:
            await asyncio.sleep(TICK)

    def _admit(self, client: str) -> None:
        if self._is_closed:
            raise Busy("The server is stopping.")
        if len(self.waiting) >= self._settings.job_queue:
            raise Busy("Too many jobs are waiting already.")
        own = sum(job.client == client for job in self.unfinished)
        if client and own >= self._settings.jobs_per_client:
            raise TooMany(f"Your address already has {own} jobs waiting or running.", SOON)
        spend()

    def _work(self, job: Job) -> None:
        job.perform(lambda: self._runs.use_here(job.state, lambda run: self._learn(job, run)), f"Job {job.id}")
        self.kept.release(job.id)
        if self.find(job.id) is job:  # and not its successor
            self.kept.keep(job.id, job)

    def _learn(self, job: Job, run: Run) -> None:
        job.result = learn(run, job.state.steps, job.advance)
