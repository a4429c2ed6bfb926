"""Figures for Prometheus at `/metrics`: requests by route, and what is held in memory or waits."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from fastapi import FastAPI, HTTPException, Request
from prometheus_client import CollectorRegistry, Gauge, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_fastapi_instrumentator import Instrumentator
from starlette.responses import Response

from app.server.admin import FORWARDED, has_token
from app.services import Services
from app.settings import AppSettings

UNCOUNTED = ["/healthz", "/readyz", "/metrics"]


def add_metrics(app: FastAPI, services: Services) -> None:
    """Count requests and add the route, as EVERYNUMBER_METRICS says. Each app has figures of its own."""
    if services.settings.metrics == "off":
        return
    registry = CollectorRegistry()
    add_gauges(registry, services)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    Instrumentator(excluded_handlers=UNCOUNTED, registry=registry).instrument(app)

    async def metrics(request: Request) -> Response:
        if not may_read(request, services.settings):
            raise HTTPException(404)
        return Response(
            generate_latest(registry), media_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"}
        )

    app.add_api_route("/metrics", metrics, methods=["GET"], include_in_schema=False)


def may_read(request: Request, settings: AppSettings) -> bool:
    """`on`: anyone. `local`: who asks directly from a private network, or has the token (`Authorization: Bearer …`)."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if settings.metrics == "on" or has_token(settings, token):
        return True
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ip_address(request.client.host if request.client else "").is_private
    except ValueError:
        return False


def add_gauges(registry: CollectorRegistry, services: Services) -> None:
    """What the app holds at the moment it is asked."""
    runs, texts, jobs, models = services.runs.kept, services.generations.kept, services.jobs, services.models
    gauges: list[tuple[str, str, Callable[[], int]]] = [
        ("runs_kept", "Runs in memory.", lambda: len(runs)),
        ("runs_bytes", "Bytes of the runs in memory.", lambda: runs.nbytes),
        ("runs_waiting", "Runs being computed or waiting for it.", lambda: runs.n_making),
        ("generations_kept", "Texts being made that are in memory.", lambda: len(texts)),
        ("jobs_waiting", "Jobs that wait.", lambda: len(jobs.waiting)),
        ("jobs_running", "Jobs that run.", lambda: len(jobs.unfinished) - len(jobs.waiting)),
        ("jobs_bytes", "Bytes of the results of jobs.", lambda: jobs.kept.nbytes),
        ("models_known", "Models that can be chosen.", lambda: len(list(models))),
        ("models_loaded", "Models in memory.", lambda: len(models.loaded)),
        ("models_bytes", "Bytes of the models in memory.", lambda: models.loaded.nbytes),
    ]
    for name, meaning, value in gauges:
        Gauge(f"everynumber_{name}", meaning, registry=registry).set_function(value)
