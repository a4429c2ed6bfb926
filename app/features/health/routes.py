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
    models, settings = services.models, services.settings
    reasons = {
        "the default model is not loaded": not models.is_loaded(models.default),
        "the queue of runs is full": services.runs.kept.n_making >= settings.run_queue,
        "the queue of jobs is full": len(services.jobs.waiting) >= settings.job_queue,
    }
    return [reason for reason, is_so in reasons.items() if is_so]
