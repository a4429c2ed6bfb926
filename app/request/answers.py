"""Answers: a page or a part of one, JSON, a file; each with the headers that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel
from starlette.responses import HTMLResponse, Response

# The same URL answers a page or a part of it, and is asked for anew each time.
ANEW = {"Vary": "HX-Request, HX-Target, HX-History-Restore-Request", "Cache-Control": "no-cache"}


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """A page, or a part of one."""
    return HTMLResponse(text, status, ANEW | dict(headers or {}))


def json(body: BaseModel | str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = body if isinstance(body, str) else body.model_dump_json()
    return Response(text, status, {"Cache-Control": "no-cache"} | dict(headers or {}), "application/json")


def attachment(content: str | bytes, media_type: str, address: str, ending: str) -> Response:
    """A file named after the address, in signs that every file system takes."""
    name = re.sub(r"[^A-Za-z0-9.,_+()-]+", "_", address.replace("[", "_").replace("]", "").replace(":", "-"))[:120]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"', "Cache-Control": "no-cache"}
    return Response(content, media_type=media_type, headers=headers)
