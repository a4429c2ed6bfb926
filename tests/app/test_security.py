"""Headers of every answer, static files and their versions."""

from __future__ import annotations

import re
import sys
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.main import create_app
from app.server.security import HEADERS
from app.settings import AppSettings

PAGES = ["/", "/explore", "/explore?model=toy", "/about", "/about/heads", "/nowhere", "/explore?at=no["]


@pytest.mark.parametrize("path", [*PAGES, "/healthz", "/api/v1/models", "/api/v1/nowhere", "/static/base.css"])
def test_every_answer_has_the_headers(client: TestClient, path: str):
    headers = client.get(path).headers
    assert {name: headers.get(name) for name in HEADERS} == HEADERS


def test_a_crash_has_them_too_and_tells_nothing(app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch):
    def crash(*_: object) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(app.state.services.runs, "submit", crash)
    for path in ("/explore", "/api/v1/run"):
        answer = client.get(path)
        assert answer.status_code == 500
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
        assert "secret" not in answer.text and "Traceback" not in answer.text
    assert client.get("/api/v1/run").json()["error"]["code"] == "internal"


@pytest.mark.parametrize("path", PAGES)
def test_pages_hold_no_inline_script_or_style(client: TestClient, path: str):
    page = BeautifulSoup(client.get(path).text, "lxml")
    assert not page.find_all("style")
    assert not page.find_all(style=True)
    assert all(script.get("src") and not script.text.strip() for script in page.find_all("script"))
    assert not [tag for tag in page.find_all(True) for name in tag.attrs if name.startswith("on")]


@pytest.mark.parametrize("path", PAGES)
def test_pages_name_no_other_host(client: TestClient, path: str):
    page = BeautifulSoup(client.get(path).text, "lxml")
    for tag in page.find_all(True):
        for name in ("href", "src", "action", "data-hx-get"):
            assert not re.match(r"(\w+:)?//(?!testserver/)", str(tag.get(name, ""))), tag


def test_static_files_carry_their_version(client: TestClient):
    page = BeautifulSoup(client.get("/").text, "lxml")
    files = [tag["href"] for tag in page.find_all("link", rel=["stylesheet", "icon"])]
    files += [tag["src"] for tag in page.find_all("script")]
    assert len(files) >= 4
    for url in map(str, files):
        answer = client.get(url)
        assert answer.status_code == 200, url
        assert "immutable" in answer.headers["Cache-Control"]
        plain = client.get(url.split("?")[0])
        assert plain.headers["Cache-Control"] == "no-cache"
        again = client.get(url.split("?")[0], headers={"If-None-Match": plain.headers["ETag"]})
        assert again.status_code == 304


def test_the_package_of_htmx_holds_the_release_that_is_meant(client: TestClient):
    text = client.get("/static/htmx/htmx.min.js").text
    assert 'version:"2.0.3"' in text and len(text) > 40_000


def test_long_answers_are_compressed(client: TestClient):
    assert client.get("/explore", headers={"Accept-Encoding": "gzip"}).headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in client.get("/explore", headers={"Accept-Encoding": "identity"}).headers


@pytest.mark.parametrize(
    "path", ["/static/../app/main.py", "/static/%2e%2e/app/main.py", "/static/htmx/../../pyproject.toml"]
)
def test_nothing_beside_the_static_files_is_served(client: TestClient, path: str):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_no_page_of_fastapi_that_loads_from_elsewhere(client: TestClient, path: str):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/", "/explore", "/api/v1/run"])
def test_only_reading_is_allowed(client: TestClient, path: str):
    answer = client.post(path, data={"text": "x"})
    assert answer.status_code == 405 and "only answers GET" in answer.text


@pytest.mark.parametrize("path", ["/", "/explore", "/about", "/healthz"])
def test_pages_answer_head(client: TestClient, path: str):
    answer = client.head(path)
    assert answer.status_code == 200 and not answer.content


@pytest.mark.parametrize(("who", "path", "framed_by"), [
    ("https://moodle.example.org", "/embed/mask", "'self' https://moodle.example.org"),
    ("https://a.example https://b.example", "/embed/mask", "'self' https://a.example https://b.example"),
    ("'self' https://b.example", "/embed/mask", "'self' https://b.example"),
    ("'none'", "/embed/mask", "'none'"),
    ("*", "/embed/mask", "*"),
    ("*", "/explore", "'self'"),
    ("*", "/embedded", "'self'"),
])  # fmt: skip
def test_who_may_frame_what(who: str, path: str, framed_by: str):
    client = TestClient(create_app(AppSettings(model="toy", frame_ancestors=who)))
    assert client.get(path).headers["Content-Security-Policy"].endswith(f"; frame-ancestors {framed_by}")


def test_embeds_under_a_prefix_may_be_framed_too():
    client = TestClient(
        create_app(AppSettings(model="toy", root_path="/x", frame_ancestors="https://moodle.example.org"))
    )
    for path in ("/x/embed/mask", "/embed/mask"):
        policy = client.get(path).headers["Content-Security-Policy"]
        assert policy.endswith("; frame-ancestors 'self' https://moodle.example.org")


HOSTILE = '"><script>alert(1)</script>'


@pytest.mark.parametrize("name", ["text", "target", "at", "model", "trail", "stop", "row", "order", "set", "eta"])
@pytest.mark.parametrize("path", ["/explore", "/learn", "/whatif", "/generate", "/embed/mask"])
def test_nothing_that_a_reader_sends_becomes_a_tag(client: TestClient, path: str, name: str):
    answer = client.get(path, params={"text": "Hello", name: HOSTILE})
    assert answer.status_code < 500
    assert "<script>alert" not in answer.text
    page = BeautifulSoup(answer.text, "lxml")
    assert all(script.get("src") for script in page.find_all("script"))


NAMES = ["../../etc/passwd", "/etc/passwd", "..%2f..%2fetc%2fpasswd", "C:\\x", "\0", "http://127.0.0.1:1/x"]
NAMED = ["/explore?model=", "/api/v1/run?model=", "/api/v1/heads?model=", "/lessons/", "/embed/", "/models/"]


class Opened:
    """What Python opens, lists or connects to while a test looks. (A hook cannot be taken away again.)"""

    seen: list[str] | None = None

    @classmethod
    def watch(cls, event: str, given: tuple[object, ...]) -> None:
        if cls.seen is not None and event in ("open", "socket.connect", "os.listdir", "os.scandir"):
            cls.seen.append(f"{event} {given}")


sys.addaudithook(Opened.watch)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", NAMED)
def test_no_name_from_a_reader_reaches_a_file_or_another_host(client: TestClient, path: str, name: str):
    Opened.seen = []
    try:
        answer = client.get(path + quote(name, safe="%"))
        opened = Opened.seen
    finally:
        Opened.seen = None
    assert answer.status_code in (303, 307, 400, 404)
    assert not [what for what in opened if "passwd" in what or "127.0.0.1" in what or "C:" in what]
