"""For whoever watches over the server: whether it lives, and whether it can take readers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from app.services import Services, ServicesDep

router = APIRouter(include_in_schema=False)

NO_STORE = {"Cache-Control": "no-store"}


@router.api_route("/healthz", methods=["GET", "HEAD"])
async def alive() -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n", headers=NO_STORE)


@router.api_route("/readyz", methods=["GET", "HEAD"])
async def ready(services: ServicesDep) -> Response:
    """200 where a reader would be served at once; 503 and why not otherwise."""
    reasons = missing(services)
    if not reasons:
        return PlainTextResponse("ready\n", headers=NO_STORE)
    return PlainTextResponse("".join(f"{reason}\n" for reason in reasons), 503, NO_STORE | {"Retry-After": "5"})


def missing(services: Services) -> list[str]:
    """What stands in the way of serving a reader."""
    reasons = []
    if not services.models.is_loaded(services.models.default):
        reasons.append("the default model is not loaded")
    if services.runs.kept.n_making >= services.settings.run_queue:
        reasons.append("the queue of runs is full")
    if len(services.jobs.waiting) >= services.settings.job_queue:
        reasons.append("the queue of jobs is full")
    return reasons
