"""The JSON API: schemathesis makes requests from its OpenAPI description, right and wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.types import Receive, Scope, Send

from tests.fuzz.answers import check
from tests.fuzz.profiles import examples
from tests.fuzz.strategies import PARAMETERS

OPERATIONS = {
    "GET /api/v1/models": 2,
    "GET /api/v1/run": 10,
    "GET /api/v1/values": 15,
    "GET /api/v1/explain": 15,
    "GET /api/v1/heads": 5,
    "GET /api/v1/generate": 8,
    "POST /api/v1/jobs": 10,
    "GET /api/v1/jobs/{id}": 8,
    "DELETE /api/v1/jobs/{id}": 5,
    "GET /api/v1/jobs/{id}/events": 2,
    "POST /api/v1/jobs/{id}/cancel": 5,
}

# What an answer is held to by the description: its status, its type, its schema, its headers.
CHECKED = [
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    response_headers_conformance,
]


@pytest.fixture(scope="module")
def schema(app: FastAPI) -> Any:
    """Its requests go to the app that is running: schemathesis would start and stop one for each."""

    async def running(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})

    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", running)


def test_every_operation_is_fuzzed(app: FastAPI) -> None:
    described = {f"{method.upper()} {path}" for path, methods in app.openapi()["paths"].items() for method in methods}
    assert described == set(OPERATIONS)


# Those whose description leaves something to get wrong.
TAKE_PARAMETERS = {name for name in OPERATIONS if name.endswith(("/run", "/values", "/explain", "/generate", "/jobs"))}
MODES = [(name, GenerationMode.POSITIVE) for name in OPERATIONS]
MODES += [(name, GenerationMode.NEGATIVE) for name in sorted(TAKE_PARAMETERS)]


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_operations(schema: Any, name: str, mode: GenerationMode) -> None:
    method, path = name.split(" ")
    operation = schema[path][method]

    @examples(OPERATIONS[name])
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def ask(case: Case, data: st.DataObject) -> None:
        aim(case, data)
        answer = case.call()
        check(answer)
        case.validate_response(answer, checks=CHECKED)

    ask()


def aim(case: Case, data: st.DataObject) -> None:
    """Half of the time a model that is there, a short text, an address that may exist: else all ends at those."""
    given = case.query if isinstance(case.query, dict) else {}
    for name in set(given) & {"model", "text", "target", "at", "set"}:
        if data.draw(st.booleans()):
            value = "the cat sat" if name == "text" else data.draw(PARAMETERS[name])
            value = value.encode("utf-8", "replace").decode()  # schemathesis sends no half emoji
            given[name] = [value] if name == "set" else value
