"""Bodies on their way in and out: bounded in size and time, so that a slow client holds neither work nor memory.

How long a request's head may take, and how long a client may take nothing of its answer, is app.server.serving's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.settings import AppSettings

PIECE = 2**16  # bytes of an answer that are sent at once


class Transfer:
    """Between the server and everything else, so that all bodies pass through it."""

    def __init__(self, app: ASGIApp, settings: AppSettings, refuse: Callable[[Request, Exception], Response]) -> None:
        self.app, self.refuse = app, refuse
        self.most_kb, self.seconds = settings.max_body_kb, settings.client_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outward, request = in_pieces(send), Request(scope)
        try:
            inward = await self.inward(request, receive)
        except HTTPException as error:
            answer = self.refuse(request, error)
            answer.headers["Connection"] = "close"  # the rest of the body is not waited for
            await answer(scope, receive, outward)
            return
        await self.app(scope, inward, outward)

    async def inward(self, request: Request, receive: Receive) -> Receive:
        """What the app receives: the whole body, read ahead where there is one. Raises HTTPException 413, 408."""
        declared = request.headers.get("content-length", "0")
        if not (declared.isdecimal() and int(declared)) and "transfer-encoding" not in request.headers:
            return receive
        if declared.isdecimal():
            self.bound(int(declared))
        try:
            async with asyncio.timeout(self.seconds):
                body = await self.read(receive)
        except TimeoutError:
            raise HTTPException(408, "The body of the request did not arrive in time.") from None
        waiting = [body]

        async def given() -> Message:
            return waiting.pop() if waiting else await receive()

        return given

    async def read(self, receive: Receive) -> Message:
        """One message with the whole body, or that the client has gone. Raises HTTPException 413."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            self.bound(len(body))
            if not message.get("more_body"):
                return {"type": "http.request", "body": bytes(body), "more_body": False}

    def bound(self, size: int) -> None:
        """Raises HTTPException 413 where a body is larger than it may be."""
        if size > self.most_kb * 1024:
            raise HTTPException(413, f"The body of a request may be {self.most_kb} kB at most.")


def in_pieces(send: Send) -> Send:
    """Sends an answer piece by piece, so that the server waits for a slow client before it buffers more."""

    async def send_pieces(message: Message) -> None:
        body: bytes = message.get("body", b"")
        if message["type"] != "http.response.body" or len(body) <= PIECE:
            await send(message)
            return
        for start in range(0, len(body), PIECE):
            more = message.get("more_body", False) or start + PIECE < len(body)
            await send({"type": message["type"], "body": body[start : start + PIECE], "more_body": more})

    return send_pieces
