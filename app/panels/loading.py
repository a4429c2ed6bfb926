"""Pages of a model that is still being read: they wait a moment for it, then show how far it is and come by themselves.

The JSON API, files, embeds and requests for a part of a page simply wait.
"""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from app.panels.errors import kept_state
from app.services import Services, ServicesDep
from app.stores.models import Loading

PATIENCE = 1.0  # seconds that a page waits for its model

HEADERS = {"Cache-Control": "no-store", "Retry-After": "2"}


class StillLoading(Exception):
    """The page's model is being read."""

    def __init__(self, loading: Loading) -> None:
        super().__init__(loading.entry.name)
        self.loading = loading


async def model_ready(request: Request, services: ServicesDep) -> None:
    """For routes of pages: begin to read the model that the request names. Raises StillLoading, ReaderError, Busy."""
    name = request.query_params.get("model", "")
    if request.method != "GET" or "HX-Request" in request.headers or (name and name not in services.models):
        return
    found = services.models.begin(name)
    if not isinstance(found, Loading):
        return
    waiting = asyncio.wrap_future(found.model)
    done, _ = await asyncio.wait({waiting}, timeout=PATIENCE)
    if not done:
        waiting.add_done_callback(lambda later: later.cancelled() or later.exception())  # told to the next request
        raise StillLoading(found)
    waiting.result()


async def still_loading(request: Request, error: Exception) -> Response:
    """The page that shows how far it is: 202, for it is not what was asked for."""
    assert isinstance(error, StillLoading)
    services: Services = request.app.state.services
    html = services.templates.render(
        "loading/page.html",
        state=kept_state(services, request.query_params),
        models=services.models,
        loading=error.loading,
    )
    return HTMLResponse(html, 202, HEADERS)
