"""Requests that no form or client of ours would send: raw queries, paths, methods, bodies and headers."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.fuzz.answers import check
from tests.fuzz.profiles import examples
from tests.fuzz.strategies import BREAKING, MARK, PARAMETERS, breaking_texts, queries, url

# What the tests of pages and of the API fuzz by name; a new route belongs to one of the lists.
PAGES = {
    "/",
    "/explore",
    "/whatif",
    "/learn",
    "/generate",
    "/about",
    "/about/heads",
    "/models",
    "/lessons",
    "/lessons/{name}",
    "/embed/{name}",
}

raw_queries = st.one_of(
    st.lists(
        st.sampled_from([*PARAMETERS, "=", "&", "%", "%FF", "%00", "%ED%A0%BD", "+", ";", "[", "]", "a", "1", "#"]),
        max_size=12,
    ).map("".join),
    st.binary(max_size=40).map(lambda raw: quote(raw, safe="%&=+")),
)
segments = st.one_of(
    st.sampled_from(
        ["..", ".", "", "%2e%2e", "%2f", "%00", "%FF", "toy", "gpt2", "tiny", "static", "embed", "api", "v1"]
    ),
    breaking_texts.map(lambda text: quote(text, safe="", errors="surrogatepass")),
)
header_values = st.one_of(
    st.sampled_from(
        [
            "",
            "[",
            "[::1",
            "http://[",
            "null",
            "a.example",
            "127.0.0.1:99999",
            "localhost:x",
            "../..",
            "1" * 500,
            f'"><{MARK}>',
            "gzip;q=x",
            "*/*",
            "bytes=0-",
            "0",
        ]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
)
HEADERS = [
    "Host",
    "Origin",
    "Referer",
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "Content-Type",
    "Cookie",
    "Range",
    "If-None-Match",
    "If-Modified-Since",
    "HX-Request",
    "HX-Target",
    "HX-Current-URL",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Request-Id",
    "Sec-Fetch-Site",
    "User-Agent",
    "Last-Event-ID",
    "Authorization",
]
LOOKED_AT = [
    "/explore",
    "/",
    "/embed/arrows",
    "/generate",
    "/learn",
    "/models",
    "/api/v1/run",
    "/api/v1/values?at=loss",
    "/static/base.css",
    "/healthz",
]


def routes(app: FastAPI) -> Iterator[tuple[str, frozenset[str]]]:
    """Path and methods of every route, those of included routers too."""
    waiting = list(app.routes)
    for route in waiting:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            waiting.extend(inner.routes)
        elif methods := getattr(route, "methods", None):
            yield route.path, frozenset(methods)  # type: ignore[attr-defined]


def test_every_path_with_odd_queries(app: FastAPI, client: TestClient) -> None:
    """Each route that reads, whatever it is called by: also one that no other test knows of."""
    paths = sorted({path for path, methods in routes(app) if "GET" in methods})
    assert set(paths) >= PAGES

    @examples(4 * len(paths))
    @given(
        path=st.sampled_from(paths),
        name=st.one_of(st.sampled_from(["toy", "tiny", "arrows", "math"]), segments),
        query=queries(odd=3),
        method=st.sampled_from(["GET", "GET", "GET", "HEAD"]),
    )
    def ask(path: str, name: str, query: list[tuple[str, str]], method: str) -> None:
        filled = "/".join(name if part.startswith("{") else part for part in path.split("/"))
        check(client.request(method, url(filled, query)), names_part=False)

    ask()


@pytest.mark.parametrize("path", ["/explore", "/api/v1/run", "/embed/guess", "/generate"])
def test_raw_queries(client: TestClient, path: str) -> None:
    @examples(25)
    @given(query=raw_queries)
    def ask(query: str) -> None:
        check(client.get(f"{path}?{query}"))

    ask()


def test_paths(client: TestClient) -> None:
    @examples(80)
    @given(path=st.lists(segments, min_size=1, max_size=5).map("/".join))
    def ask(path: str) -> None:
        answer = client.get(f"http://testserver/{path}")
        check(answer, names_part=False)
        assert "root:" not in answer.text

    ask()


def test_headers(client: TestClient) -> None:
    @examples(60)
    @given(path=st.sampled_from(LOOKED_AT), given=st.dictionaries(st.sampled_from(HEADERS), header_values, max_size=4))
    def ask(path: str, given: dict[str, str]) -> None:
        check(client.get(path, headers=given), names_part=False)

    ask()


def test_methods_and_bodies(app: FastAPI, client: TestClient) -> None:
    """What writes: nothing but jobs does without the host's leave."""
    paths = [*sorted({path for path, methods in routes(app) if methods - {"GET", "HEAD"}}), "/explore", "/api/v1/run"]
    bodies = st.one_of(
        st.binary(max_size=60),
        st.sampled_from(
            [
                b"{}",
                b"[]",
                b"null",
                b'"x"',
                b'{"text": 3}',
                b'{"steps": 1e400}',
                b'{"set": "x"}',
                b"[" * 5000,
                b'{"text": "\\ud800"}',
                b'{"text": "the cat", "steps": true}',
                b"token=x&token=",
                b"\xff\xfe",
            ]
        ),
    )
    kinds = [
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/plain",
        "",
        "x/y;q=[",
        "multipart/form-data; boundary=x",
    ]

    @examples(60)
    @given(
        path=st.sampled_from(paths),
        name=st.one_of(st.sampled_from(["toy", "gpt2", "0" * 16]), segments),
        method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", MARK.upper()]),
        body=bodies,
        kind=st.sampled_from(kinds),
        headers=st.dictionaries(st.sampled_from(HEADERS), header_values, max_size=2),
        query=queries(odd=2),
    )
    def ask(
        path: str, name: str, method: str, body: bytes, kind: str, headers: dict[str, str], query: list[tuple[str, str]]
    ) -> None:
        filled = "/".join(name if part.startswith("{") else part for part in path.split("/"))
        sent = headers | {"Content-Type": kind}
        check(client.request(method, url(filled, query), content=body, headers=sent), names_part=False)

    ask()


def test_the_fuzz_reaches_pages_that_work(client: TestClient) -> None:
    """The texts that would break out of a page do run: whole pages are checked, not refusals alone."""
    for text in BREAKING:
        answer = client.get(url("/explore", [("text", text)]))
        assert answer.status_code == 200, text
        check(answer)
