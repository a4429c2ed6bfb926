"""Logs: one record a line, and never what a reader wrote unless the host switched that on."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.main import create_app
from app.request.long_text import packed
from app.server import logs
from app.settings import AppSettings

SECRET = "zebra crossing"

Logged = Callable[..., tuple[TestClient, io.StringIO]]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logged]:
    """`logged(log="json")` is a client of an app and what it has logged."""
    root = logging.getLogger()
    before = root.handlers[:], root.level

    def begin(**settings: object) -> tuple[TestClient, io.StringIO]:
        chosen = AppSettings.model_validate({"model": "toy", "log_level": "info"} | settings)
        logs.configure(chosen)
        written = io.StringIO()
        handler = root.handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(written)
        app: FastAPI = create_app(chosen)
        return TestClient(app, raise_server_exceptions=False, client=("203.0.113.7", 1)), written

    yield begin
    root.handlers[:], _ = before
    root.setLevel(before[1])


def records(written: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_request_is_one_json_line_without_the_sentence(logged: Logged):
    client, written = logged(log="json")
    client.get("/api/v1/run", params={"text": "the cat sat", "target": SECRET})
    (record,) = [one for one in records(written) if one["logger"] == "app.access"]
    assert (record["method"], record["path"], record["status"]) == ("GET", "/api/v1/run", 400)
    assert isinstance(record["seconds"], float) and record["bytes"] and record["time"]
    assert "zebra" not in written.getvalue() and "203.0.113" not in written.getvalue()


def test_files_and_health_checks_are_logged_where_they_fail(logged: Logged):
    client, written = logged(log="json")
    for path in ("/static/base.css", "/healthz", "/static/nowhere.css"):
        client.get(path)
    assert [one["path"] for one in records(written) if "path" in one] == ["/static/nowhere.css"]


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("path", ["/explore", "/api/v1/run", "/learn?go=1"])
def test_a_crash_is_logged_without_what_it_says(logged: Logged, form: str, path: str, monkeypatch: pytest.MonkeyPatch):
    client, written = logged(log=form)

    def crash(*_: object) -> None:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise RuntimeError(f"cannot run {SECRET}") from error

    monkeypatch.setattr(client.app.state.services.runs, "submit", crash)  # type: ignore[attr-defined]
    assert client.get(path, params={"text": SECRET, "model": "toy"}).status_code in (200, 500)
    assert "zebra" not in written.getvalue()


def test_an_error_is_logged_with_its_types_and_frames(logged: Logged):
    _, written = logged(log="json")
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise RuntimeError(SECRET) from error
    except RuntimeError:
        logging.getLogger("app.somewhere").exception("It broke")
    (record,) = records(written)
    assert record["message"] == "It broke"
    told = "\n".join(record["error"])  # type: ignore[arg-type]
    assert "RuntimeError" in told and "KeyError" in told and "test_logs.py" in told
    assert "zebra" not in written.getvalue()


def test_messages_of_libraries_lose_their_values(logged: Logged):
    _, written = logged(log="json")
    logging.getLogger("somelibrary").warning("bad value %r\nin %s", SECRET, SECRET)

    async def forget() -> None:
        async def fail() -> None:
            raise ValueError(SECRET)

        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        del task

    asyncio.run(forget())
    import gc

    gc.collect()
    assert "bad value" in written.getvalue() and "zebra" not in written.getvalue()


def test_readers_are_logged_where_the_host_wants_it(logged: Logged):
    client, written = logged(log="json", log_readers=True)
    client.get("/api/v1/run", params={"text": "the cat", "target": "zebra"})
    (record,) = [one for one in records(written) if one["logger"] == "app.access"]
    assert "zebra" in str(record["query"]) and record["client"] == "203.0.113.7"


def test_a_path_cannot_forge_a_line(logged: Logged):
    client, written = logged(log="text")
    client.get("/nowhere%E2%80%A82026-01-01 INFO app.access: forged%1B[2J")
    lines = written.getvalue().splitlines()
    assert len([one for one in lines if "forged" in one]) == 1
    (line,) = [one for one in lines if "nowhere" in one]
    assert "\\u20282026" in line and "\x1b" not in line


@pytest.mark.parametrize("rest", ["/explore", "/nowhere"])
def test_a_text_packed_in_a_path_is_left_out(logged: Logged, rest: str):
    client, written = logged(log="json")
    text = packed("the cat sat on the")
    client.get(f"/~{text}{rest}")
    assert rest in written.getvalue() and text not in written.getvalue()


def test_warnings_alone_unless_told(logged: Logged):
    client, written = logged(log_level="warning")
    client.get("/about")
    assert written.getvalue() == ""
