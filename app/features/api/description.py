"""The API in OpenAPI's words."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

DESCRIPTION = """
GPT-2 with every number clickable, for programs. A run is named by `model`, `text`, `target` and `bos`; a number in it
by its address, such as `blocks.0.attn.pattern[0,3,1]`, `logits[3,17]`, `loss` or `calc(logits[3,17]-logits[3,5])`.
Indices count from 0. Position t predicts token t+1.

A suffix asks for another quantity at the same place: `.grad` the loss's slope, `.step(k)` the number after k learning
steps (`.step` is one), `.grad(k)` its slope there, `.m(k)` and `.v(k)` AdamW's running averages; `eta` and `optimizer`
say how steps are taken. On a large model POST the same inputs to `/api/v1/jobs` first; its steps are then found again.
`set=blocks.1.attn.z[:,2,:]=0` (repeatable) sets numbers on the way.

Errors are `{"error": {"code", "message", "hint", "part"}}`.
"""


def described(app: FastAPI) -> dict[str, Any]:
    """Without the 422 that FastAPI would add: a malformed parameter answers 400 here."""
    if not app.openapi_schema:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(unused, None)
        app.openapi_schema = found
    return app.openapi_schema
