"""The app: routes, static files and middleware put together."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module

from fastapi import APIRouter, Depends, FastAPI
from pydantic import ValidationError
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE

from app import features
from app.dependencies import texts_fit
from app.features.api.description import DESCRIPTION, described
from app.features.health.metrics import add_metrics
from app.panels.errors import add_handlers, answer_to
from app.panels.loading import StillLoading, still_loading
from app.render.templating import HTMX, STATIC, VersionedFiles
from app.request.long_text import in_full
from app.server import logs, proxy
from app.server.limits import Limits, Rates
from app.server.prefix import ROOT
from app.server.process import tune
from app.server.security import SecurityHeaders
from app.server.transfer import Transfer
from app.services import Services
from app.settings import AppSettings
from model.errors import ReaderError

log = logging.getLogger(__name__)


def routers() -> Iterator[APIRouter]:
    """Of every module of a feature that has one, the feature's `routes` first."""
    modules = [module.name for module in pkgutil.walk_packages(features.__path__, "app.features.")]
    for name in sorted(modules, key=lambda name: (name.rpartition(".")[0], not name.endswith(".routes"), name)):
        if router := getattr(import_module(name), "router", None):
            yield router


ROUTERS = tuple(routers())


class App(FastAPI):
    """The app as readers see it: all within, the answer to a crash too, knows the prefix of its URLs.

    Middleware sees requests alone; starting and stopping are the router's.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.router({**scope, "app": self}, receive, send)
            return
        scope = in_full(proxy.seen_from_outside(scope, self.state.services.settings))
        token = ROOT.set(scope["root_path"])
        try:
            await super().__call__(scope, receive, send)
        finally:
            ROOT.reset(token)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The default model is loaded before the first request; what waits is cancelled at the end."""
    services: Services = app.state.services
    tune(services.models.entry("").n_parameters, services.settings.threads)
    await services.runs.in_thread(lambda: services.models.get(""))
    yield
    services.close()


def create_app(settings: AppSettings | None = None) -> FastAPI:
    """The whole app. Raises a ReaderError where the settings name a model that is not there.

    Without settings it takes them, and how to log, from the environment: `uvicorn --factory app.main:create_app`.
    """
    if settings is None:
        return from_environment()
    services = Services.of(settings)
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
    for router in ROUTERS:
        app.include_router(router)
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
