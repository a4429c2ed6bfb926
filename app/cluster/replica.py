"""One replica: the ordinary app, asked in its own process instead of through a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from anyio import create_memory_object_stream
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import FastAPI
from starlette.types import ASGIApp, Message

from app.cluster.routing import ForwardedRequest

AHEAD = 8  # messages that the app may be ahead of whoever reads its answer


@dataclass(frozen=True)
class ResponseHead:
    """The head of an answer; pieces of its body follow."""

    status: int
    headers: list[tuple[bytes, bytes]]


class InProcess:
    """An app with its lifespan, begun by the first request."""

    def __init__(self, app: FastAPI, name: str) -> None:
        self.app, self.name = app, name
        self._lock, self._life = asyncio.Lock(), app.router.lifespan_context(app)
        self._is_up = False

    async def begin(self) -> None:
        async with self._lock:
            if not self._is_up:
                await self._life.__aenter__()  # it ends with the process
                self._is_up = True

    async def answer(self, asked: ForwardedRequest) -> AsyncIterator[ResponseHead | bytes]:
        """The answer's head, then its body piece by piece. Whoever stops reading ends the work."""
        await self.begin()
        sent, messages = create_memory_object_stream[Message](AHEAD)
        work = asyncio.create_task(_ask(self.app, self.scope(asked), asked.body, sent))
        try:
            async for message in messages:
                if message["type"] == "http.response.start":
                    named = (b"x-replica", self.name.encode())
                    yield ResponseHead(message["status"], [*message["headers"], named])
                elif message.get("body"):
                    yield message["body"]
            await work  # raises what the app raised
        finally:
            work.cancel()
            messages.close()

    def scope(self, asked: ForwardedRequest) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": asked.method,
            "scheme": asked.scheme,
            "path": asked.path,
            "raw_path": asked.path.encode(),
            "query_string": asked.query,
            "root_path": self.app.root_path,
            "headers": asked.headers,
            "client": asked.client,
            "server": None,
            "state": {},
        }


async def _ask(app: ASGIApp, scope: dict[str, Any], body: bytes, sent: MemoryObjectSendStream[Message]) -> None:
    """Run the app on one request whose whole body is here; nothing more is ever received."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if given:
            return given.pop()
        return await asyncio.Future[Message]()  # cancelled with the work

    with sent:
        await app(scope, receive, sent.send)
