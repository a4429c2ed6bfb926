"""Pages, fragments and embeds under odd queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.features.lessons.routes import LESSONS
from app.parts.table import PARTS
from tests.fuzz.answers import check
from tests.fuzz.profiles import examples
from tests.fuzz.strategies import addresses, queries, settings_of, url

# path -> parameters that are always drawn, and how many examples
PAGES: dict[str, tuple[tuple[str, ...], int]] = {
    "/explore": (("at",), 60),
    "/whatif": (("set",), 20),
    "/learn": (("at",), 15),
    "/generate": (("n",), 20),
    "/about": ((), 5),
    "/about/heads": ((), 4),
    "/models": ((), 3),
    "/": ((), 3),
    "/lessons": ((), 2),
    **{f"/lessons/{lesson.name}": (("at",), 3) for lesson in LESSONS},
}
ZONES = ["zones", "values", "why", "notice", "results", "part", "generate", "x"]


@st.composite
def headers(draw: st.DrawFn) -> dict[str, str]:
    """None, or those that ask for a fragment."""
    if draw(st.booleans()):
        return {}
    history = {"HX-History-Restore-Request": "true"} if draw(st.integers(0, 9)) == 0 else {}
    return {"HX-Request": "true", "HX-Target": draw(st.sampled_from(ZONES))} | history


@pytest.mark.parametrize("path", PAGES)
def test_pages(client: TestClient, path: str) -> None:
    always, n = PAGES[path]

    @examples(n)
    @given(query=queries(*always), extra=headers())
    def ask(query: list[tuple[str, str]], extra: dict[str, str]) -> None:
        check(client.get(url(path, query), headers=extra))

    ask()


@pytest.mark.parametrize("name", PARTS)
def test_embeds(client: TestClient, name: str) -> None:
    @examples(4)
    @given(own=settings_of(PARTS[name]), query=queries(odd=3), extra=headers())
    def ask(own: list[tuple[str, str]], query: list[tuple[str, str]], extra: dict[str, str]) -> None:
        check(client.get(url(f"/embed/{name}", own + query), headers=extra))

    ask()


def test_what_a_page_refuses_its_json_refuses(client: TestClient) -> None:
    """An address that the explorer will not show is one that the API will not explain, and for the same part."""

    @examples(60)
    @given(at=addresses)
    def ask(at: str) -> None:
        query = [("text", "the cat sat"), ("at", at)]
        page, twin = client.get(url("/explore", query)), client.get(url("/api/v1/explain", query))
        check(page)
        check(twin)
        if page.status_code >= 400:
            assert twin.status_code == page.status_code, at

    ask()
