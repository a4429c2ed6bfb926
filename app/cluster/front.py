"""What readers reach: passes each request on to a replica that suits it, and its answer back as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from app.cluster.replica import ResponseHead
from app.cluster.routing import ForwardedRequest, route
from app.settings import AppSettings
from app.stores.catalogue import Catalogue

TOO_LARGE = 413


class Front:
    """Knows the models by their configs alone: it loads none. Every number comes from the replicas."""

    def __init__(self, settings: AppSettings, pages: DeploymentHandle, jobs: DeploymentHandle) -> None:
        self.models = Catalogue(settings)
        self.most = settings.max_body_kb * 1024
        self.pools = {"pages": pages.options(stream=True), "jobs": jobs.options(stream=True)}

    async def __call__(self, request: Request) -> Response:
        asked = await self.read(request)
        if asked is None:
            return PlainTextResponse(f"The body is larger than {self.most} bytes.", TOO_LARGE)
        tries = 2 if request.method in ("GET", "HEAD") else 1  # where a replica ends in between, another can answer
        for _ in range(tries):
            try:
                return await self.passed_on(asked)
            except (RayActorError, RayServeException, BackPressureError):
                continue
        return PlainTextResponse("No replica could answer. Try again in a moment.", 503, {"Retry-After": "2"})

    async def passed_on(self, asked: ForwardedRequest) -> Response:
        """A replica's answer, its head read and its body still to come."""
        way = route(asked, self.models)
        handle = self.pools[way.pool]
        if way.holder:
            handle = handle.options(multiplexed_model_id=way.holder)
        answer = handle.answer.remote(asked)
        began: ResponseHead = await anext(answer)
        response = StreamingResponse(pieces(answer), began.status)
        response.raw_headers = began.headers
        return response

    async def read(self, request: Request) -> ForwardedRequest | None:
        """The request with its whole body; None where that is too large."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > self.most:
                return None
        client = (request.client.host, request.client.port) if request.client else None
        return ForwardedRequest(
            request.method, request.scope["path"], request.scope["query_string"], request.headers.raw, body, client,
            request.scope.get("scheme", "http"),
        )  # fmt: skip


async def pieces(answer: Any) -> AsyncIterator[bytes]:
    """The rest of an answer; a reader who goes away ends the work on it."""
    try:
        async for piece in answer:
            yield piece
    finally:
        answer.cancel()
