"""One replica: the ordinary app, asked in its own process instead of through a socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

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
        self._lock, self._life = asyncio.Lock(), AsyncExitStack()
        self._is_up = False

    async def begin(self) -> None:
        async with self._lock:
            if not self._is_up:
                await self._life.enter_async_context(self.app.router.lifespan_context(self.app))
                self._is_up = True

    async def end(self) -> None:
        """What the app does when it stops."""
        await self._life.aclose()

    async def answer(self, asked: ForwardedRequest) -> AsyncIterator[ResponseHead | bytes]:
        """The answer's head, then its body piece by piece. Whoever stops reading ends the work."""
        await self.begin()
        messages: asyncio.Queue[Message] = asyncio.Queue(AHEAD)
        work = asyncio.create_task(_ask(self.app, self.scope(asked), asked.body, messages))
        try:
            while (message := await _next(messages, work)) is not None:
                if message["type"] == "http.response.start":
                    named = (b"x-replica", self.name.encode())
                    yield ResponseHead(message["status"], [*message["headers"], named])
                elif message.get("body"):
                    yield message["body"]
        finally:
            work.cancel()

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


async def _ask(app: ASGIApp, scope: dict[str, Any], body: bytes, messages: asyncio.Queue[Message]) -> None:
    """Run the app on one request whose whole body is here; nothing more is ever received."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if given:
            return given.pop()
        return await asyncio.Future[Message]()  # cancelled with the work

    await app(scope, receive, messages.put)


async def _next(messages: asyncio.Queue[Message], work: asyncio.Task[None]) -> Message | None:
    """The app's next message; None at its end. Raises what the app raised."""
    getting = asyncio.ensure_future(messages.get())
    await asyncio.wait((getting, work), return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    if messages.empty():
        work.result()
        return None
    return messages.get_nowait()


def process_name(replica: str) -> str:
    """A replica's short name, with its process."""
    return f"{replica}-{os.getpid()}"
