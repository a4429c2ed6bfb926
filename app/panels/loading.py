"""Pages of a model that is still being read: they wait a moment for it, then show how far it is and come by themselves.

The JSON API, files, embeds and requests for a part of a page simply wait.
"""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from app.panels.errors import kept_state
from app.request import answers
from app.request.htmx import HtmxDep
from app.services import ServicesDep, services_of
from app.stores.models import Loading

PATIENCE = 1.0  # seconds that a page waits for its model

HEADERS = {"Cache-Control": "no-store", "Retry-After": "2"}


class StillLoading(Exception):
    """The page's model is being read."""

    def __init__(self, loading: Loading) -> None:
        super().__init__(loading.entry.name)
        self.loading = loading


async def model_ready(request: Request, services: ServicesDep, htmx: HtmxDep) -> None:
    """For routes of pages: begin to read the model that the request names. Raises StillLoading, ReaderError, Busy."""
    name = request.query_params.get("model", "")
    if request.method != "GET" or htmx.wants_part or (name and name not in services.models):
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
    services = services_of(request)
    state = kept_state(services, request.query_params)
    return answers.html(services.page("loading/page.html", state, loading=error.loading), 202, HEADERS)
