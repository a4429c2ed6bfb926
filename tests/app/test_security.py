"""Headers of every answer, static files and their versions."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.security import HEADERS

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
