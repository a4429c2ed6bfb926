"""Logs as text or as JSON, a line each. Without what readers wrote, unless EVERYNUMBER_LOG_READERS is switched on.

Readers' sentences stand in query strings and in what errors say. So a request is logged by its path alone, an error by
its type and the lines of code that it passed, and of other libraries' messages only the first line, without values.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.limits import client_of
from app.server.prefix import path_of
from app.settings import AppSettings

access = logging.getLogger("app.access")

OURS = ("app", "model")  # loggers whose messages hold no sentence
QUIET = ("/healthz", "/readyz", "/metrics", "/static/")  # asked all the time; logged where they fail

PACKED = re.compile(r"^/~[^/]*")  # a long text stands in the path (app.request.long_text)


def configure(settings: AppSettings) -> None:
    """Send the logs of this process to standard error, as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((Json if settings.log == "json" else Text)(readers=settings.log_readers))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):  # it may have set up its own
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # its lines hold the query; `Access` writes ours
        logger.setLevel(logging.NOTSET)


class Text(logging.Formatter):
    """One line a record, and the frames of an error below it."""

    def __init__(self, *, readers: bool) -> None:
        super().__init__()
        self.readers = readers

    def format(self, record: logging.LogRecord) -> str:
        line = f"{clock(record)} {record.levelname} {record.name}: {plain(self.message(record))}"
        line += "".join(f" {name}={plain(str(value))}" for name, value in noted(record).items())
        return "\n".join([line, *self.error(record)])

    def message(self, record: logging.LogRecord) -> str:
        """What is said; of libraries that know nothing of this rule, the pattern alone and its first line."""
        if self.readers or record.name.partition(".")[0] in OURS or record.name.startswith("uvicorn"):
            return record.getMessage()
        return str(record.msg).partition("\n")[0]

    def error(self, record: logging.LogRecord) -> Iterator[str]:
        """An error and what caused it: types and frames, what it says only where readers may be logged."""
        error = record.exc_info[1] if record.exc_info else None
        while error is not None:
            said = f": {error}" if self.readers else ""
            yield f"{type(error).__module__}.{type(error).__qualname__}{said}"
            for frame in traceback.extract_tb(error.__traceback__):
                yield f"  {frame.filename}:{frame.lineno} {frame.name}"
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


class Json(Text):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, object] = {"time": clock(record), "level": record.levelname.lower(), "logger": record.name}
        found |= {"message": self.message(record), **noted(record)}
        if error := list(self.error(record)):
            found["error"] = error
        return json.dumps(found, ensure_ascii=False, default=str)


def clock(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain(text: str) -> str:
    """On one line: a path or a message cannot pretend to be another record."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def noted(record: logging.LogRecord) -> dict[str, Any]:
    """What `Access` notes about a request."""
    found: dict[str, Any] = vars(record).get("request", {})
    return found


class Access:
    """Logs each request: method, path, status, seconds, bytes; with the query and the client where readers may be."""

    def __init__(self, app: ASGIApp, settings: AppSettings) -> None:
        self.app, self.readers = app, settings.log_readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not access.isEnabledFor(logging.INFO):
            await self.app(scope, receive, send)
            return
        request, began = Request(scope), time.perf_counter()
        asked, status, sent = path_of(request), 500, 0  # a static file's route changes the scope
        path = asked if self.readers else PACKED.sub("/~", asked)

        async def counted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            if status >= 400 or not path.startswith(QUIET):
                told: dict[str, object] = {"method": scope["method"], "path": path, "status": status}
                told |= {"seconds": round(time.perf_counter() - began, 4), "bytes": sent}
                if self.readers:
                    told |= {"query": scope["query_string"].decode("latin-1"), "client": client_of(scope)}
                access.info("request", extra={"request": told})
