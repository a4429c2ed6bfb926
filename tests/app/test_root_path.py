"""Served under a prefix: no address on any page leaves it, whether the proxy in front takes the prefix off or not."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from lxml import etree, html
from pydantic import ValidationError
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings

PREFIX = "/courses/every-number"
LINKS = ("href", "src", "action", "formaction", "data-hx-get", "data-hx-post", "content", "poster", "data")
STARTS = ["/", "/explore?at=logits[3,17]&trail=loss", "/lessons", "/lessons/transformer?all=1", "/lessons/math?all=1",
          "/generate?n=3", "/learn?model=toy&steps=1&go=1", "/whatif?model=toy", "/about", "/about/heads?model=toy",
          "/embed/mask", "/explore?at=no[", "/explore?model=toy&at=blocks.0.attn.qk[0,1,0].grad"]  # fmt: skip


@pytest.fixture(scope="module")
def prefixed() -> FastAPI:
    return create_app(AppSettings(root_path=PREFIX))


@pytest.fixture(scope="module")
def inside(prefixed: FastAPI) -> TestClient:
    return TestClient(prefixed, raise_server_exceptions=False, follow_redirects=False)


def addresses(page: str) -> Iterator[tuple[str, bool]]:
    """Everything on a page that a browser may ask for, and whether that only reads."""
    for tag in html.document_fromstring(page).iter(etree.Element):
        reads = tag.get("method", "").lower() != "post"
        for name in LINKS:
            value = tag.get(name, "")
            if name != "content" or value.startswith(("/", "http")):
                yield value, reads


def test_a_crawl_never_leaves_the_prefix(inside: TestClient):
    starts = {PREFIX + start for start in STARTS}
    todo = deque(sorted(starts))
    met: set[str] = set()
    pages = 0
    while todo:
        url = todo.popleft()
        if urlsplit(url).path in met and url not in starts:
            continue  # one page of each path, and those to start from
        starts.discard(url)
        met.add(urlsplit(url).path)
        answer = inside.get(url)
        assert answer.status_code in (200, 303, 400), (url, answer.status_code)  # 400: there is such a page
        if "text/html" not in answer.headers.get("Content-Type", ""):
            continue
        pages += 1
        for found, reads in dict.fromkeys(addresses(answer.text)):
            if not found or found.startswith(("#", "data:")):
                continue
            target = urldefrag(urljoin(f"http://testserver{url}", found))[0]
            parts = urlsplit(target)
            assert parts.netloc == "testserver", (url, found)
            assert parts.path == PREFIX or parts.path.startswith(f"{PREFIX}/"), (url, found)
            assert not parts.path.startswith(PREFIX * 2), (url, found)
            if reads:
                todo.append(target.removeprefix("http://testserver"))
    assert pages > 40
    for path in ("explore", "generate", "learn", "whatif", "about", "about/heads", "lessons/math", "embed/arrows"):
        assert any(one == f"{PREFIX}/{path}" for one in met), path
    assert f"{PREFIX}/api/v1/explain" in met
    assert any(one.startswith(f"{PREFIX}/static/htmx/") for one in met)


@pytest.mark.parametrize("path", ["/", "/explore", "/about/heads?model=toy", "/nowhere", "/static/base.css",
                                  "/static/htmx/htmx.min.js", "/static/nowhere.css", "/api/v1/models", "/healthz",
                                  "/api/v1/nowhere", "/explore?at=no["])  # fmt: skip
def test_a_proxy_may_take_the_prefix_off_or_leave_it_on(inside: TestClient, path: str):
    off, on = inside.get(path), inside.get(PREFIX + path)
    assert off.status_code == on.status_code
    assert off.text == on.text
    assert off.status_code == (404 if "nowhere" in path else 400 if "no[" in path else 200)


def test_an_error_of_the_api_is_json_under_a_prefix(inside: TestClient):
    assert inside.get(f"{PREFIX}/api/v1/nowhere").json()["error"]["code"] == "http_404"


def test_a_crash_is_told_under_the_prefix(prefixed: FastAPI, inside: TestClient, monkeypatch: pytest.MonkeyPatch):
    def crash(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(prefixed.state.services.runs, "submit", crash)
    answer = inside.get(f"{PREFIX}/explore")
    assert answer.status_code == 500
    assert f'href="{PREFIX}/about"' in answer.text and 'href="/' not in answer.text.replace(f'href="{PREFIX}/', "")


def test_the_answers_to_htmx_stay_inside(inside: TestClient):
    for target in ("why", "zones", "values"):
        part = inside.get(f"{PREFIX}/explore?at=loss", headers={"HX-Request": "true", "HX-Target": target}).text
        found = [one for one, _ in addresses(part) if one and not one.startswith("#")]
        assert found and all(one.startswith(f"{PREFIX}/") for one in found), target
    pushed = inside.get(f"{PREFIX}/generate?n=2", headers={"HX-Request": "true", "HX-Target": "generation"})
    assert pushed.headers.get("HX-Push-Url", PREFIX).startswith(PREFIX)


def test_a_long_text_makes_buttons_of_forms_inside(inside: TestClient):
    text = "the cat and the dog " * 30
    page = BeautifulSoup(inside.get(f"{PREFIX}/explore", params={"text": text}).text, "lxml")
    assert page.select("button[form=go][name=at]")
    actions = {str(form["action"]) for form in page.find_all("form", method="get")}
    assert f"{PREFIX}/explore" in actions
    assert all(action.startswith((f"{PREFIX}/explore", f"{PREFIX}/export/")) for action in actions)


def test_jobs_and_redirects_stay_inside(inside: TestClient):
    job = inside.post(f"{PREFIX}/api/v1/jobs", json={"model": "toy", "steps": 1})
    assert job.headers["Location"].startswith(f"{PREFIX}/api/v1/jobs/{job.json()['id']}?")
    assert job.json()["page"].startswith(f"{PREFIX}/learn?")
    assert inside.get(job.headers["Location"]).json()["id"] == job.json()["id"]  # done or not
    cancelled = inside.post(f"{PREFIX}/learn/cancel?model=toy&steps=2")
    assert cancelled.headers["Location"].startswith(f"{PREFIX}/learn?")
    home = inside.get(PREFIX)
    assert home.status_code == 307 and urlsplit(home.headers["Location"]).path == f"{PREFIX}/"


def test_openapi_names_the_prefix(inside: TestClient, client: TestClient):
    described = inside.get(f"{PREFIX}/api/v1/openapi.json").json()
    assert described["servers"] == [{"url": PREFIX}]
    assert all(path.startswith("/api/") for path in described["paths"])
    assert "servers" not in client.get("/api/v1/openapi.json").json()


def test_two_apps_of_one_process_keep_their_own_prefix(inside: TestClient, client: TestClient):
    for _ in range(2):
        assert f'href="{PREFIX}/about"' in inside.get("/").text
        assert 'href="/about"' in client.get("/").text
        assert PREFIX not in client.get("/explore").text


def test_the_server_may_name_the_prefix_instead(app: FastAPI):
    """As `uvicorn --root-path` or an app that this one is mounted in does."""
    client = TestClient(app, root_path="/elsewhere")
    assert 'href="/elsewhere/about"' in client.get("/elsewhere/").text


def test_full_addresses_have_the_prefix_once(inside: TestClient):
    page = inside.get(f"{PREFIX}/embed/mask").text
    assert re.findall(r'src="(http[^?"]*)\?', page.replace("&#34;", '"')) in (
        [],
        [f"http://testserver{PREFIX}/embed/mask"],
    )


@pytest.mark.parametrize(
    ("given", "meant"), [("", ""), ("/", ""), ("x", "/x"), ("/x/", "/x"), ("/a-b/c.d", "/a-b/c.d")]
)
def test_the_prefix_is_written_in_one_way(given: str, meant: str):
    assert AppSettings(root_path=given).root_path == meant


@pytest.mark.parametrize("given", ["/a b", "/x?y", "/../x", "/ä", 'x"y', "https://example.org/x"])
def test_a_prefix_that_is_none_is_refused(given: str):
    with pytest.raises(ValidationError, match="as in /every-number"):
        AppSettings(root_path=given)
