"""The app: routes, static files and middleware put together."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import ValidationError
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE

from app.dependencies import texts_fit
from app.features.about import routes as about
from app.features.api import generate as api_generate
from app.features.api import jobs as api_jobs
from app.features.api import routes as api
from app.features.embed import routes as embed
from app.features.explore import routes as explore
from app.features.export import routes as export
from app.features.generate import routes as generate
from app.features.health import routes as health
from app.features.health.metrics import add_metrics
from app.features.home import routes as home
from app.features.learn import routes as learn
from app.features.lessons import routes as lessons
from app.features.models import routes as model_pages
from app.features.share import card_routes as card
from app.features.share import oembed
from app.features.share import routes as share
from app.features.whatif import routes as whatif
from app.panels.errors import add_handlers, answer_to
from app.panels.loading import StillLoading, model_ready, still_loading
from app.render.templating import (
    HTMX,
    STATIC,
    Templates,
    VersionedFiles,
)
from app.request.long_text import in_full
from app.server import logs, proxy
from app.server.limits import Limits, Rates
from app.server.prefix import ROOT
from app.server.process import tune
from app.server.security import SecurityHeaders
from app.server.transfer import Transfer
from app.services import Services
from app.settings import AppSettings
from app.stores.generations import Generations
from app.stores.jobs import JobStore
from app.stores.models import ModelStore
from app.stores.runs import RunStore
from model.errors import ReaderError

log = logging.getLogger(__name__)

DESCRIPTION = """
GPT-2 with every number clickable, for programs. A run is named by `model`, `text`, `target` and `bos`; a number in it
by its address, such as `blocks.0.attn.pattern[0,3,1]`, `logits[3,17]`, `loss` or `calc(logits[3,17]-logits[3,5])`.
Indices count from 0. Position t predicts token t+1.

A suffix asks for another quantity at the same place: `.grad` the loss's slope, `.step(k)` the number after k learning
steps (`.step` is one), `.grad(k)` its slope there, `.m(k)` and `.v(k)` AdamW's running averages; `eta` and `optimizer`
say how steps are taken. On a large model POST the same inputs to `/api/v1/jobs` first; its steps are then found again.
`set=blocks.1.attn.z[:,2,:]=0` (repeatable) sets numbers on the way.

Errors are `{"error": {"code", "message", "hint", "part"}}`.
"""


class App(FastAPI):
    """The app as readers see it: all within, the answer to a crash too, knows the prefix of its URLs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        scope = in_full(proxy.seen_from_outside(scope, self.state.services.settings))
        token = ROOT.set(scope["root_path"])
        try:
            await super().__call__(scope, receive, send)
        finally:
            ROOT.reset(token)


def create_app(settings: AppSettings | None = None) -> FastAPI:
    """The whole app. Raises a ReaderError where the settings name a model that is not there.

    Without settings it takes them, and how to log, from the environment: `uvicorn --factory app.main:create_app`.
    """
    if settings is None:
        return from_environment()
    models = ModelStore(settings)
    runs = RunStore(models, settings)
    jobs = JobStore(runs, settings)
    services = Services(settings, models, runs, jobs, Generations(models, settings), Templates())

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        tune(models.entry("").n_parameters, settings.threads)
        await services.runs.in_thread(lambda: models.get(""))
        yield
        services.close()

    app = App(
        title="Every Number",
        version="1",
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # these pages would load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(texts_fit)],
    )
    app.state.services = services
    # From the inside out: each wraps those above it.
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=6)
    app.add_middleware(Transfer, settings=settings, refuse=answer_to)
    app.add_middleware(Limits, rates=Rates(settings), refuse=answer_to)
    app.add_middleware(SecurityHeaders, frame_ancestors=settings.frame_ancestors)
    add_metrics(app, services)
    app.add_middleware(logs.Access, settings=settings)
    add_handlers(app)
    app.add_exception_handler(StillLoading, still_loading)
    for pages in (home, explore, lessons, generate, learn, whatif):
        app.include_router(pages.router, dependencies=[Depends(model_ready)])
    for others in (embed, export, about, model_pages, share, card, oembed, api, api_generate, api_jobs, health):
        app.include_router(others.router)
    app.mount("/static/htmx", VersionedFiles(packages=[HTMX]), name="htmx")
    app.mount("/static", VersionedFiles(directory=STATIC), name="static")
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    return app


def from_environment() -> FastAPI:
    """The app as a worker process makes it. Where the settings are wrong it says so and is not started again."""
    try:
        settings = AppSettings()
        logs.configure(settings)
        return create_app(settings)
    except ReaderError as error:
        log.error("%s %s", error.message, error.hint)
    except ValidationError as error:
        log.error("%s", error)
    raise SystemExit(STARTUP_FAILURE)


def described(app: FastAPI) -> dict[str, Any]:
    """The API in OpenAPI's words, without the 422 that FastAPI would add: a malformed parameter answers 400 here."""
    if not app.openapi_schema:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(unused, None)
        app.openapi_schema = found
    return app.openapi_schema
