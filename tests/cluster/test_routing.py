"""Where a request goes, and the app asked without a socket. Needs no Ray."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from app.cluster.replica import InProcess, ResponseHead
from app.cluster.routing import ForwardedRequest, Route, route
from app.cluster.settings import ClusterSettings
from app.main import create_app
from app.request.state import State
from app.settings import AppSettings
from app.stores.models import ModelStore

TEXT = "the cat sat"


@pytest.fixture(scope="module")
def models() -> ModelStore:
    return ModelStore(AppSettings())


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(AppSettings(model="toy"))) as client:
        yield client


def got(path: str, **query: str) -> ForwardedRequest:
    return ForwardedRequest("GET", path, urlencode(query).encode(), [(b"host", b"testserver")])


def sent(path: str, body: dict[str, object]) -> ForwardedRequest:
    return ForwardedRequest("POST", path, b"", [(b"content-type", b"application/json")], json.dumps(body).encode())


def test_only_another_model_than_the_default_is_looked_for(models: ModelStore):
    assert route(got("/explore", text=TEXT), models) == Route("pages")
    assert route(got("/explore", model="embedded", text=TEXT), models) == Route("pages")
    assert route(got("/explore", model="toy", text=TEXT), models) == Route("pages", "toy")
    assert route(got("/explore", model="../etc", text=TEXT), models) == Route("pages")
    assert route(sent("/api/v1/generate", {"model": "toy", "text": TEXT}), models) == Route("pages", "toy")
    assert route(ForwardedRequest("POST", "/x", b"", [(b"content-type", b"application/json")], b"{"), models) == Route(
        "pages"
    )


def test_a_job_is_looked_for_where_it_runs(client: TestClient, models: ModelStore):
    asked = {"model": "toy", "text": TEXT, "steps": 2, "eta": 0.01}
    id = client.post("/api/v1/jobs", json=asked).json()["id"]
    here = Route("jobs", id)
    assert route(sent("/api/v1/jobs", asked), models) == here
    assert route(got(f"/api/v1/jobs/{id}"), models) == here
    assert route(got(f"/api/v1/jobs/{id}/events"), models) == here
    page = State(model="toy", text=TEXT, steps=2, eta=0.01)
    assert route(ForwardedRequest("GET", "/learn", page.query().encode(), []), models) == here
    assert route(ForwardedRequest("POST", "/learn/cancel", page.query().encode(), []), models) == here
    assert route(got("/learn", model="no such"), models) == Route("jobs")
    assert route(got("/learning"), models) == Route("pages")


def asked_in_process(app: InProcess, asked: ForwardedRequest) -> tuple[ResponseHead, bytes]:
    async def ask() -> tuple[ResponseHead, bytes]:
        head, *body = [piece async for piece in app.answer(asked)]
        assert isinstance(head, ResponseHead)
        return head, b"".join(piece for piece in body if isinstance(piece, bytes))

    return asyncio.run(ask())


@pytest.mark.parametrize("path", ["/", "/explore", "/api/v1/explain", "/static/app.js", "/no/such/page"])
def test_the_answer_is_the_one_through_a_socket(client: TestClient, path: str):
    query = {"model": "toy", "text": TEXT, "at": "logits[2,1]"} if "explain" in path or "explore" in path else {}
    through = client.get(path, params=query, headers={"accept-encoding": "identity"})
    head, body = asked_in_process(InProcess(create_app(AppSettings(model="toy")), "one"), got(path, **query))
    assert (head.status, body) == (through.status_code, through.content)
    headers = {name.decode(): value.decode() for name, value in head.headers}
    assert headers.pop("x-replica") == "one"
    assert headers.keys() == through.headers.keys()


def test_what_the_app_raises_reaches_whoever_asked():
    app = create_app(AppSettings(model="toy"))

    @app.get("/breaks")
    def breaks() -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        asked_in_process(InProcess(app, "one"), got("/breaks"))


def test_who_stops_reading_ends_the_work():
    app, ended = create_app(AppSettings(model="toy")), []

    @app.get("/endless")
    async def endless() -> object:
        from starlette.responses import StreamingResponse

        async def pieces():
            try:
                while True:
                    yield b"x" * 2000
                    await asyncio.sleep(0)
            finally:
                ended.append(True)

        return StreamingResponse(pieces())

    async def read_a_little() -> None:
        answer = InProcess(app, "one").answer(got("/endless"))
        assert isinstance(await anext(answer), ResponseHead)
        await anext(answer)
        await answer.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(read_a_little())
    assert ended == [True]


def test_the_docs_list_every_cluster_setting():
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text("utf-8")
    table = re.findall(r"^\| `(\w+)` \| (\S+) \| (.+) \|$", page, re.M)
    assert table == [
        (f"EVERYNUMBER_CLUSTER_{name.upper()}", f"{field.default:g}", field.description)
        for name, field in ClusterSettings.model_fields.items()
    ]
