"""JSON for programs: learning steps as jobs, with their progress as a stream of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from app.dependencies import run_state
from app.features.api.routes import ERRORS
from app.panels import schemas
from app.request import answers
from app.request.paths import LEARN
from app.request.state import RunQuery
from app.server.prefix import AppPath, rooted
from app.services import Services, ServicesDep
from app.stores.jobs import Job
from app.stores.learned import Learned
from model.address.patch import PatchError
from model.errors import ReaderError

EVERY = 0.2  # seconds between two events

Id = Annotated[str, Path(description="The id that POST /api/v1/jobs answered.")]
Inputs = Annotated[
    RunQuery, Query(description="The job's inputs, as its `url` has them: with them any server can answer for it.")
]

router = APIRouter(prefix="/api/v1/jobs", responses=ERRORS, tags=["Every Number"])


class UnknownJob(ReaderError):
    """No job goes by that id here."""

    code, part = "unknown_job", "id"


class Probability(schemas.Schema):
    """One token's probability after each step, the first before any."""

    id: int
    text: str | None
    probabilities: list[schemas.Number]


class Moved(schemas.Schema):
    """How far a parameter went: the length of the way, all its numbers together."""

    name: str
    one_step: schemas.Number
    all_steps: schemas.Number


class Along(schemas.Schema):
    """The loss with all weights moved by η times their slopes; below 0 up the slope."""

    eta: float
    loss: schemas.Number


class LearnedAnswer(schemas.Schema):
    """What the steps did."""

    eta: float
    optimizer: Literal["sgd", "adamw"]
    losses: list[schemas.Number] = Field(description="After 0, 1, 2, … steps; addresses loss, loss.step(1), …")
    tokens: list[Probability] = Field(description="The likeliest next tokens before and after, the target first.")
    along_slope: list[Along]
    moved: list[Moved]


class JobAnswer(schemas.Schema):
    """One job."""

    id: str
    state: Literal["waiting", "running", "done", "cancelled", "failed"] = Field(validation_alias="stage")
    progress: float = Field(validation_alias="share", ge=0, le=1, description="The share of the work that is done.")
    seconds_left: float | None = Field(description="An estimate; null while none can be made.")
    url: str = Field(description="Where to ask how far it is: it names the inputs, so any server can answer it.")
    page: str = Field(description="The page that shows the job and starts it again if it is not known any more.")
    result: LearnedAnswer | None = Field(description="Null until it is done.")


@router.post(
    "",
    response_model=JobAnswer,
    summary="Take learning steps",
    responses={200: {"description": "Done already."}, 202: {"model": JobAnswer, "description": "Waiting or running."}},
)
async def start(query: RunQuery, services: ServicesDep) -> Response:
    """Start the job, or find the one for the same inputs: there is one computation for all who ask."""
    state = run_state(services, query)
    if state.changes:
        raise PatchError("Learning begins from the run as it is, without numbers set.", "Leave “set” out.")
    job = services.jobs.start(state)
    return answer(services, job)


@router.get("/{id}", response_model=JobAnswer, summary="How far a job is")
async def state(id: Id, query: Inputs, request: Request, services: ServicesDep) -> Response:
    """Its progress, and when it is done its result.

    The job's `url` also carries its inputs: another process of the server, or this one after a restart, which knows
    nothing of the job, then begins it and comes to the same numbers.
    """
    return answer(services, found(services, id, query if request.query_params else None))


@router.get(
    "/{id}/events",
    summary="A job's progress as it goes",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
)
async def events(id: Id, query: Inputs, request: Request, services: ServicesDep) -> Response:
    """Server-sent events: `progress` with `{state, progress, seconds_left}` and at the end one named as the state."""
    job = found(services, id, query if request.query_params else None)
    return StreamingResponse(stream(job), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.delete("/{id}", response_model=JobAnswer, summary="Call a job off")
async def delete(id: Id, services: ServicesDep) -> Response:
    """It ends before its next step, for all who wait for it."""
    return await cancel(id, services)


@router.post("/{id}/cancel", response_model=JobAnswer, summary="Call a job off")
async def cancel(id: Id, services: ServicesDep) -> Response:
    """The same as DELETE."""
    job = found(services, id)
    services.jobs.cancel(id)
    await services.jobs.wait(job, 1.0)
    return answer(services, job)


def found(services: Services, id: str, query: RunQuery | None = None) -> Job:
    """The job of that id, begun anew where it is not known here and its inputs are given. Raises UnknownJob."""
    job = services.jobs.find(id)
    if job is None and query is not None and services.jobs.id(state := run_state(services, query)) == id:
        job = services.jobs.start(state)
    if job is None:
        raise UnknownJob(f"There is no job “{id[:40]}” here.", "POST its inputs to /api/v1/jobs again.")
    if job.error:
        raise job.error
    return job


def answer(services: Services, job: Job) -> Response:
    url = f"{rooted(AppPath(f'/api/v1/jobs/{job.id}'))}?{job.state.query()}"
    learned = learned_answer(services, job.state.model, job.result) if job.result else None
    body = JobAnswer.of(job, url=url, page=job.state.url(LEARN), result=learned)
    status = 200 if job.is_over else 202
    headers = {"Cache-Control": "no-store", "Location": url}
    return answers.json(body, status, headers)


def learned_answer(services: Services, model: str, learned: Learned) -> LearnedAnswer:
    tokenizer = services.models.tokenizer(model)
    followed = zip(learned.tokens, zip(*learned.probabilities, strict=True), strict=True)
    return LearnedAnswer.of(
        learned,
        eta=learned.rate.eta,
        optimizer=learned.rate.optimizer,
        tokens=[Probability(id=v, text=tokenizer.text(v), probabilities=list(row)) for v, row in followed],
        along_slope=[Along(eta=eta, loss=loss) for eta, loss in zip(learned.etas, learned.curve, strict=True)],
        moved=[Moved(name=name, one_step=one, all_steps=every) for name, (one, every) in learned.moved.items()],
    )


async def stream(job: Job) -> AsyncIterator[str]:
    """Events until the job is over."""
    is_over = False
    while not is_over:
        is_over = job.is_over
        data = {"state": job.stage, "progress": job.share, "seconds_left": job.seconds_left}
        yield f"event: {job.stage if is_over else 'progress'}\ndata: {json.dumps(data)}\n\n"
        if not is_over:
            await asyncio.sleep(EVERY)
