"""From the first page into the explorer, with and without JavaScript; access; errors that are seen and go away."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("path", ["/", "/about", "/about/heads?model=toy"])
def test_access(page: Page, server: str, axe: Callable[..., list[str]], path: str, width: int) -> None:
    page.goto(server + path)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/nowhere", "/explore?at=logits[3,", "/explore?model=toy&text=whale&target=x"])
def test_access_of_errors(page: Page, server: str, axe: Callable[..., list[str]], watch: Any, path: str) -> None:
    watch.allow("status of 40[04]")
    page.goto(server + path)
    expect(page.locator("main .fault")).to_be_visible()
    assert axe(page) == []


@pytest.mark.parametrize("javascript", [True, False])
def test_a_sentence_of_ones_own(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    page.goto(server)
    page.get_by_role("textbox", name="Sentence").fill("The dog saw\nthe cat and")
    page.get_by_label("no start token").check()
    page.get_by_role("button", name="Run").click()
    expect(page).to_have_url(re.compile(r"/explore\?.*bos=0"))
    tokens = page.locator("#tokens .token")
    expect(tokens.first).to_contain_text("The")
    expect(page.get_by_role("textbox", name="Sentence")).to_have_value("The dog saw\nthe cat and")
    expect(page.get_by_label("no start token")).to_be_checked()
    expect(page.locator("#tokens")).to_contain_text("⏎")
    expect(page.get_by_role("heading", name="Next token, after position")).to_be_visible()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_live_number_leads_to_its_reason(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    page.goto(server)
    number = page.locator(".now p a.num").first
    shown = number.inner_text()
    number.click()
    expect(page).to_have_url(re.compile(r"/explore\?.*at=probs"))
    expect(page.locator("#guesses")).to_contain_text(shown)
    expect(page.locator("#why")).to_be_visible()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_token_is_chosen_and_back_leads_back(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/explore")
    first = page.title()
    page.locator("#tokens .token").nth(2).click()
    expect(page).to_have_url(re.compile(r"at=tokens\[2\]"))
    expect(page).to_have_title(re.compile(r"^tokens\[2\] = "))
    expect(page.locator("#tokens [aria-current]")).to_have_count(1)
    expect(page.locator("#tokens .token").nth(2)).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(page).to_have_title(first)
    page.go_forward()
    expect(page).to_have_title(re.compile(r"^tokens\[2\] = "))
    page.reload()
    expect(page.locator("#tokens .token").nth(2)).to_have_attribute("aria-current", "true")


def test_a_click_swaps_the_zones_without_loading_the_page(page: Page, server: str) -> None:
    page.goto(f"{server}/explore")
    page.evaluate("window.stays = true")
    page.locator(".target-note a.num").click()
    expect(page).to_have_title(re.compile(r"^loss = "))
    assert page.evaluate("window.stays") is True
    assert page.locator("#zones").count() == page.locator("#tokens").count() == page.locator("#go").count() == 1


def test_a_long_text_is_explored_by_buttons(open_page: Callable[..., Page], server: str) -> None:
    for javascript in (True, False):
        page = open_page(javascript=javascript)
        page.goto(f"{server}/explore")
        page.get_by_role("textbox", name="Sentence").fill("The dog and the cat went to the park.\n" * 12)
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#tokens")).to_contain_text("park")
        button = page.locator("#tokens button[name=at]").nth(3)  # of the tokens around the one looked at
        at = button.get_attribute("value") or ""
        assert at.startswith("tokens[")
        button.click()
        expect(page).to_have_title(re.compile(rf"^{re.escape(at)} = "))
        expect(page).to_have_url(re.compile("at=tokens"))
        expect(page).to_have_url(re.compile("text=The"))
        page.reload()
        expect(page.locator(f"#tokens button[value='{at}']")).to_have_attribute("aria-current", "true")


def test_the_chosen_token_is_in_view_on_a_phone(open_page: Callable[..., Page], server: str) -> None:
    page = open_page(width=390)
    page.goto(f"{server}/explore?text={'word%20' * 40}")
    chosen, box = page.locator("#tokens [aria-current]"), page.locator("#tokens")
    inner, outer = chosen.bounding_box(), box.bounding_box()
    assert inner and outer and box.evaluate("e => e.scrollHeight > e.clientHeight")
    assert outer["y"] <= inner["y"] and inner["y"] + inner["height"] <= outer["y"] + outer["height"] + 1


def test_an_error_is_seen_in_place_and_goes_away(page: Page, server: str, watch: Any) -> None:
    watch.allow("status of 400")
    page.goto(f"{server}/explore")
    before = page.url
    page.evaluate("htmx.ajax('GET', '/explore?at=logits[99,0]', {target: '#zones', swap: 'outerHTML'})")
    expect(page.locator("#notice")).to_contain_text("out of range")
    expect(page.locator("#why")).to_be_visible()
    assert page.url == before
    page.locator("#tokens .token").first.click()
    expect(page.locator("#notice")).to_be_empty()


def test_a_target_is_chosen_among_the_guesses(page: Page, server: str) -> None:
    page.goto(f"{server}/explore")
    second = page.locator("#guesses tbody th a").nth(1)
    name = second.inner_text()
    second.click()
    expect(page.locator("#guesses [aria-current]")).to_have_text(name)
    expect(page.locator(".target-note")).not_to_contain_text("own first guess,")


def test_heads_come_in_when_they_are_looked_for(open_page: Callable[..., Page], server: str) -> None:
    page = open_page()
    page.goto(f"{server}/about?model=toy")
    page.locator("#heads").scroll_into_view_if_needed()
    expect(page.locator("#heads tbody tr")).to_have_count(2)
    plain = open_page(javascript=False)
    plain.goto(f"{server}/about?model=toy")
    plain.locator("#heads a").click()
    expect(plain.locator("#heads tbody tr")).to_have_count(2)


def test_by_keyboard(page: Page, server: str) -> None:
    page.goto(f"{server}/explore")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#values$"))
    page.goto(server)
    page.locator("#models summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.locator("#models a").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("model=toy"))
    expect(page.locator("#models summary")).to_contain_text("toy")
