"""Served under a prefix, in a browser: explorer, lesson and generation work, and nothing is asked outside of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import serve

PREFIX = "/courses/every-number"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the app under its prefix."""
    from app.main import create_app
    from app.settings import AppSettings

    for address in serve(create_app(AppSettings(root_path=PREFIX))):
        yield address + PREFIX


@pytest.fixture(autouse=True)
def inside(watch: Any) -> Iterator[None]:
    """Every request of the page has the prefix, once."""
    yield
    paths = {urlsplit(url).path for url in watch.requests if url.startswith("http")}
    assert paths and all(path.startswith(f"{PREFIX}/") and PREFIX * 2 not in path for path in paths), paths


@pytest.mark.parametrize("javascript", [True, False])
def test_from_home_to_a_number_s_inputs(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/")
    page.get_by_role("link", name="Explore", exact=True).click()
    expect(page).to_have_url(re.compile(re.escape(f"{server}/explore")))
    page.locator("#values a.num").first.click()
    expect(page).to_have_url(re.compile(re.escape(f"{server}/explore?") + ".*at="))
    before = page.locator("#why-h").inner_text()
    page.locator("#why .terms a.num, #why table a.num").first.click()
    expect(page.locator("#why-h")).not_to_have_text(before)
    page.get_by_role("textbox", name="Sentence").fill("The dog saw the cat")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#tokens")).to_contain_text("dog")
    expect(page).to_have_url(re.compile(re.escape(f"{server}/explore?")))
    page.reload()
    expect(page.locator("#tokens")).to_contain_text("dog")


def test_a_lesson_s_number_opens_beside_it_and_leads_to_the_explorer(page: Page, server: str) -> None:
    page.goto(f"{server}/lessons/transformer")
    page.locator("#lesson a.num:visible").first.click()
    expect(page.locator("#why-open")).to_have_attribute("href", re.compile(re.escape(f"{PREFIX}/explore?") + ".*at="))
    page.locator("#why-open").click()
    expect(page).to_have_url(re.compile(re.escape(f"{server}/explore?")))


def test_a_text_is_made(page: Page, server: str) -> None:
    page.goto(f"{server}/generate?n=3")
    page.locator("#more").click()
    expect(page).to_have_url(re.compile(re.escape(f"{server}/generate?")))


def test_an_unknown_page_leads_back_inside(page: Page, server: str, watch: Any) -> None:
    watch.allow("status of 404")
    page.goto(f"{server}/nowhere")
    page.get_by_role("link", name="Explore the example sentence").click()
    expect(page).to_have_url(re.compile(re.escape(f"{server}/explore")))
