"""The numbers and the map in a browser: by mouse, by keyboard, without JavaScript, on a phone, for everyone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]

CURRENT = "#values .grid [aria-current]"


def explore(page: Page, server: str, at: str, **more: str) -> None:
    query = "".join(f"&{name}={quote(value)}" for name, value in more.items())
    page.goto(f"{server}/explore?at={quote(at)}{query}")


def has_focus(page: Page, at: str) -> None:
    """Focus is on the number at this address."""
    page.wait_for_function("at => document.activeElement?.href?.includes('at=' + at)", arg=at)


# -- for everyone


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200, 1440])
def test_access(page: Page, server: str, axe: Callable[..., list[str]], width: int) -> None:
    explore(page, server, "blocks.2.attn.qk[1,14,2]")
    assert axe(page, "#zones .what") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    "at", ["loss", "loss_per_token[3]", "probs[14,:]", "blocks.0.attn.W_O[1,7,100]", "blocks.0.mlp.b_in[40]"]
)
def test_access_of_other_shapes(page: Page, server: str, axe: Callable[..., list[str]], at: str) -> None:
    explore(page, server, at)
    assert axe(page, "#zones .what") == []


def test_access_of_buttons(page: Page, server: str, axe: Callable[..., list[str]]) -> None:
    explore(page, server, "blocks.2.attn.qk[1,14,2]", text="The dog and the cat went to the park. " * 14)
    expect(page.locator(CURRENT)).to_have_count(1)
    assert page.locator("#values .grid button.num").count() > 100
    assert axe(page, "#zones .what") == []


# -- by mouse, with and without JavaScript


@pytest.mark.parametrize("javascript", [True, False])
def test_a_walk_through_attention(open_page: OpenPage, server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript, width=1440)
    page.goto(f"{server}/explore")
    page.locator("#map").get_by_text("block 2").click()
    expect(page.locator("#map .open .site")).not_to_have_count(0)
    page.locator("#map .site", has_text="pattern").click()
    expect(page.locator("#values-h")).to_have_text("Attention weights")
    page.locator("#values .grid tbody tr").nth(14).locator("td .num").nth(2).click()
    expect(page).to_have_url(re.compile(r"at=blocks\.2\.attn\.pattern\[0,14,2\]"))
    expect(page.locator(CURRENT)).to_have_count(1)
    page.locator("#values .heads").get_by_text("head 3").click()
    expect(page).to_have_url(re.compile(r"at=blocks\.2\.attn\.pattern\[3,14,2\]"))
    page.locator("#values .stages").get_by_text("query · key").click()
    expect(page).to_have_url(re.compile(r"at=blocks\.2\.attn\.qk\[3,14,2\]"))
    expect(page.locator("#map .site[aria-current]")).to_have_text("qk")
    shown = page.locator(CURRENT).inner_text()
    page.locator("#map .block").nth(1).locator(".heads-of .cell").nth(1).click()
    expect(page).to_have_url(re.compile(r"at=blocks\.1\.attn\.pattern\[1,14,2\]"))
    page.go_back()
    expect(page.locator(CURRENT)).to_have_text(shown)
    page.reload()
    expect(page.locator(CURRENT)).to_have_text(shown)


@pytest.mark.parametrize("javascript", [True, False])
def test_moving_the_window(open_page: OpenPage, server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript, width=1440)
    explore(page, server, "blocks.1.mlp.pre[14,300]")
    heads = page.locator("#values .grid thead .i")
    expect(heads.first).to_have_text("288")
    page.get_by_role("link", name="next d_mlp").click()
    expect(heads.first).to_have_text("304")
    expect(page.locator(CURRENT)).to_have_count(0)
    expect(page.locator("#why")).to_contain_text("blocks.1.mlp.pre[14,300]")
    page.get_by_role("spinbutton", name="d_mlp").fill("33")
    page.get_by_role("button", name="Show").click()
    expect(heads.first).to_have_text("32")
    page.get_by_role("link", name="Back to blocks.1.mlp.pre[14,300]").click()
    expect(heads.first).to_have_text("288")
    expect(page.locator(CURRENT)).to_have_count(1)
    page.locator("#values .area").nth(3).click()
    expect(page).not_to_have_url(re.compile("300"))
    expect(page.locator(CURRENT)).to_have_count(1)
    page.get_by_label("Go to").fill("blocks.3.ln2.mean[7]")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator("#values-h")).to_have_text("Mean")
    expect(page.locator(CURRENT)).to_have_count(1)


def test_an_address_that_is_not_there_is_said_in_place(page: Page, server: str, watch: Any) -> None:
    watch.allow("status of 400")
    explore(page, server, "blocks.1.mlp.pre[14,300]")
    page.get_by_label("Go to").fill("blocks.1.mlp.pre[14,9999]")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("out of range")
    expect(page.get_by_label("Go to")).to_have_value("blocks.1.mlp.pre[14,9999]")


@pytest.mark.parametrize("javascript", [True, False])
def test_the_files_hold_the_numbers(open_page: OpenPage, server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    explore(page, server, "blocks.2.attn.qk[1,14,2]")
    page.locator("#values .download summary").click()
    for name in ("CSV", "JSON", "NPY"):
        with page.expect_download() as download:
            page.locator("#values .download").get_by_role("button", name=name).first.click()
        assert download.value.path().stat().st_size > 100


# -- by keyboard


def test_arrows_move_enter_opens_and_focus_stays(page: Page, server: str) -> None:
    explore(page, server, "blocks.2.attn.qk[1,14,2]")
    page.evaluate("window.stays = true")
    page.locator(CURRENT).focus()
    page.keyboard.press("ArrowUp")
    has_focus(page, "blocks.2.attn.qk[1,13,2]")
    page.keyboard.press("ArrowRight")
    has_focus(page, "blocks.2.attn.qk[1,13,3]")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"at=blocks\.2\.attn\.qk\[1,13,3\]"))
    has_focus(page, "blocks.2.attn.qk[1,13,3]")
    expect(page.locator("#live")).to_have_text(re.compile("13,3"))
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    has_focus(page, "blocks.2.attn.scores[1,13,3]")  # the row goes on
    assert page.evaluate("window.stays") is True


def test_arrows_turn_the_page_at_its_edge(page: Page, server: str) -> None:
    explore(page, server, "blocks.1.mlp.pre[3,303]")
    page.locator(CURRENT).focus()
    page.keyboard.press("ArrowRight")
    has_focus(page, "blocks.1.mlp.pre[3,304]")
    page.keyboard.press("ArrowLeft")
    has_focus(page, "blocks.1.mlp.pre[3,303]")
    explore(page, server, "blocks.1.mlp.W_in[11,3]")
    page.locator(CURRENT).focus()
    row = page.evaluate("document.querySelectorAll('#values .grid tbody tr').length")
    for _ in range(row):
        page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile("row="))
    expect(page.locator("#values .grid .num:focus")).to_have_count(1)


def test_one_number_is_in_the_tab_order(page: Page, server: str) -> None:
    explore(page, server, "blocks.2.attn.qk[1,14,2]")
    assert page.locator("#values .grid .num[tabindex='0']").count() == 1
    page.locator(CURRENT).focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#values .grid .num[tabindex='0']")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.grid')") is None


def test_backspace_goes_back_along_the_trail(page: Page, server: str) -> None:
    explore(
        page, server, "blocks.2.attn.qk[1,14,2]", trail="blocks.2.attn.pattern[1,14,2]~blocks.2.attn.scores[1,14,2]"
    )
    page.keyboard.press("Backspace")
    expect(page).to_have_url(re.compile(r"at=blocks\.2\.attn\.scores\[1,14,2\]"))
    page.keyboard.press("Backspace")
    expect(page).to_have_url(re.compile(r"at=blocks\.2\.attn\.pattern\[1,14,2\]"))
    page.get_by_label("Go to").focus()
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    expect(page.get_by_label("Go to")).to_have_value("blocks.2.attn.pattern[1,14,2")


def test_the_menu_closes(page: Page, server: str) -> None:
    explore(page, server, "loss")
    menu = page.locator("details.menu")
    menu.locator("summary").click()
    expect(menu).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    menu.locator("summary").click()
    page.locator("#values-h").click()
    expect(menu).not_to_have_attribute("open", "")


# -- on a phone


@pytest.mark.parametrize("javascript", [True, False])
def test_sites_unfold_on_a_phone(open_page: OpenPage, server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript, width=390)
    explore(page, server, "blocks.2.attn.qk[1,14,2]")
    site = page.locator("#map .open .site", has_text="mlp_out")
    expect(site).not_to_be_visible()
    page.locator("#map .unfold + label").click()
    expect(site).to_be_visible()
    site.click()
    expect(page.locator("#values-h")).to_have_text("Feed-forward update")


def test_what_was_set_follows_the_number_looked_at(page: Page, server: str) -> None:
    explore(page, server, "embed[2,0]", set="embed[2,0]=1")
    page.locator('#values a[href*="at=embed[2,3]"]').first.click()
    expect(page.locator("#why .addr").first).to_have_text("embed[2,3]")
    for link in page.locator("#set-note a").all():
        assert "at=embed[2,3]" in str(link.get_attribute("href"))
    page.locator("#set-note a").last.click()
    expect(page.locator("#set-note p")).to_have_count(0)
    expect(page.locator("#why .addr").first).to_have_text("embed[2,3]")
