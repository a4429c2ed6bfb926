"""The first lesson in a browser: every live part used with and without JavaScript, numbers opened, keys, access."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

PATH = "/lessons/transformer"

# A part, the field to set, its new value, and words that the part then shows.
USED = [
    ("guess", "text", "the dog", "dog"),
    ("arrows", "ax", "-3", "They lean apart"),
    ("neighbours", "b", " bird", "length of bird"),
    ("shuffle", "positions", "1", "Position rows are on"),
    ("rope", "i", "5", "As long as i − j is 2"),
    ("scaling", "d", "16", "√16"),
    ("mask", "mask", "0", "The mask is off"),
    ("neurons", "block", "1", "neurons in block 1"),
    ("bend", "x", "-1", "At x = −1"),
    ("collapse", "bend", "1", "With the bend in place"),
    ("norm", "d", "10", "mean μ = 4"),
    ("size", "blocks", "48", "12d² × 48"),
    ("shift", "add", "5", "score + 5"),
    ("temperature", "temperature", "0.5", "at T = 0.5"),
    ("cut", "top_p", "0.5", "crosses p, stays"),
    ("paragraph", "tokens", "2", "Another seed"),
    ("cache", "tokens", "3", "Both ways give the same logits"),
    ("tiny", "rounds", "2", "After 2 steps"),
]


def fill(page: Page, part: str, name: str, value: str) -> None:
    field = page.locator(f"#live-{part} .controls [name={name}]")
    if field.evaluate("field => field.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize(("part", "name", "value", "says"), USED)
def test_a_form_is_sent(
    open_page: Callable[..., Page], server: str, javascript: bool, part: str, name: str, value: str, says: str
) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/embed/{part}")
    fill(page, part, name, value)
    page.locator(f"#live-{part} .controls button").click()
    expect(page.locator(f"#live-{part}")).to_contain_text(re.compile(re.escape(says).replace(r"\ ", r"\s*")))
    expect(page).to_have_url(re.compile(rf"{name}="))
    page.wait_for_load_state("networkidle")
    page.reload()
    expect(page.locator(f"#live-{part} .controls [name={name}]")).to_have_value(value)


def test_sliders_show_their_value_and_act_while_they_move(page: Page, server: str) -> None:
    page.goto(f"{server}/embed/temperature")
    slider = page.get_by_role("slider", name="temperature T, slider")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.locator("[name=temperature]")).to_have_value("1.7")
    expect(page.locator("#live-temperature")).to_contain_text("at T = 1.7")
    expect(slider).to_be_focused()
    expect(page).to_have_url(re.compile("temperature=1.7"))


def test_an_arrow_is_dragged(page: Page, server: str) -> None:
    page.goto(f"{server}/embed/arrows")
    box = page.locator("svg.plane").bounding_box()
    grip = page.locator("[data-grip=a]").bounding_box()
    assert box and grip
    page.mouse.move(grip["x"] + 7, grip["y"] + 7)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 - 37.5 * box["width"] / 320, steps=6)
    page.mouse.up()
    expect(page.locator("[name=ax]")).to_have_value("0")
    expect(page.locator("[name=ay]")).to_have_value("1")
    expect(page.locator("#live-arrows .facts-of td").first).to_have_text("2.50")


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize(
    "part", ["stream", "predictions", "heads", "follow", "norm", "mask", "size", "collapse", "cut"]
)
def test_a_number_is_opened(open_page: Callable[..., Page], server: str, javascript: bool, part: str) -> None:
    page = open_page(javascript=javascript, width=1440)
    page.goto(f"{server}/embed/{part}")
    page.locator(f"#live-{part} .live-out a.num:visible").nth(1).click()
    expect(page.locator("#why h2")).to_contain_text("Why ")
    expect(page).to_have_url(re.compile("/embed/.*at="))
    page.reload()
    expect(page.locator("#why h2")).to_contain_text("Why ")


@pytest.mark.parametrize("javascript", [True, False])
def test_tokens_are_appended(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/embed/guess?text=the cat sat")
    before = page.locator("#live-guess .token").count()
    page.locator("#live-guess .bars tbody tr").first.locator("td a").first.click()
    expect(page.locator("#live-guess .token")).to_have_count(before + 1)
    expect(page).to_have_url(re.compile("text=the%20cat%20sat"))


@pytest.mark.parametrize("javascript", [True, False])
def test_another_head_position_and_row(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/embed/heads")
    page.get_by_role("link", name=re.compile("block 3 head 3")).click()
    expect(page.locator("#live-heads h4")).to_have_text("Block 3, head 3, weights in %")
    page.goto(f"{server}/embed/follow")
    page.locator("#live-follow .token").first.click()
    expect(page.locator("#live-follow .token").first).to_have_attribute("aria-current", "true")
    expect(page.locator("#live-follow .says")).to_contain_text("After the")


def test_a_number_of_the_prose_opens_beside_it(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(server + PATH)
    number = page.locator("#guess p .live").first
    number.click()
    expect(page.locator("#why h2")).to_contain_text("Why ")
    expect(number).to_have_class(re.compile(r"\bon\b"))
    expect(page).to_have_url(re.compile(r"/lessons/transformer\?.*at=probs"))
    expect(page).to_have_title(re.compile("transformer from scratch"))
    address = page.locator("#why .addr").inner_text()
    page.locator("#why a.num").first.click()
    expect(page.locator("#why .addr")).not_to_have_text(address)
    expect(page.locator("#why-open")).to_have_attribute("href", re.compile("^/explore.*at="))
    page.reload()
    expect(page.locator("#why h2")).to_contain_text("Why ")


def test_without_javascript_a_number_leads_to_the_explorer(open_page: Callable[..., Page], server: str) -> None:
    page = open_page(javascript=False)
    page.goto(server + PATH)
    expect(page.locator(".later")).not_to_have_count(0)
    page.locator("#guess p .live").first.click()
    expect(page).to_have_url(re.compile("/explore"))
    page.go_back()
    page.locator("#live-rope a").click()
    expect(page).to_have_url(re.compile("/embed/rope"))
    with page.expect_popup() as lesson:
        page.get_by_role("link", name="In the lesson").click()
    expect(lesson.value).to_have_url(re.compile(r"/lessons/transformer\?.*#where$"))


def test_parts_come_in_as_the_reader_comes_near(page: Page, server: str) -> None:
    page.goto(server + PATH)
    assert page.locator("#live-temperature.later").count() == 1
    page.locator("#live-temperature").scroll_into_view_if_needed()
    expect(page.locator("#live-temperature .controls")).to_be_visible()
    fill(page, "temperature", "temperature", "2")
    page.keyboard.press("Enter")
    expect(page.locator("#live-temperature")).to_contain_text("at T = 2")
    assert "/lessons/transformer" in page.url


def test_the_numbers_that_made_one_are_framed_in_the_toy(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{server}/embed/follow?model=toy&text=the cat sat&bos=0")
    page.locator("#live-follow a[href*='resid_pre[2,0]']").click()
    expect(page.locator("#live-follow .from")).to_have_count(2)


@pytest.mark.parametrize("javascript", [True, False])
def test_a_slope_of_the_run_without_additions_is_opened(
    open_page: Callable[..., Page], server: str, javascript: bool
) -> None:
    page = open_page(javascript=javascript, width=1440)
    page.goto(f"{server}/embed/stream")
    number = page.locator("#live-stream tbody tr").first.locator("a.num").last
    shown = number.inner_text()
    number.click()
    expect(page.locator("#why h2")).to_contain_text("Why ")
    expect(page.locator("#why a[href*='additions']").first).to_be_attached()
    expect(page.locator("#live-stream tbody tr").first.locator("a.num").last).to_have_text(shown)


@pytest.mark.parametrize("javascript", [True, False])
def test_a_share_is_opened_text_by_text(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript, width=1440)
    page.goto(f"{server}/embed/heads")
    page.locator("#live-heads table[aria-label^='What'] td:last-child a").first.click()
    expect(page.locator("#live-heads .tests tbody").first).to_be_visible()
    page.locator("#live-heads .tests a.num").first.click()
    expect(page.locator("#why h2")).to_contain_text("Why ")


def test_keys_and_contents(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(server + PATH)
    page.keyboard.press("n")
    expect(page.locator("#h-guess")).to_be_focused()
    page.keyboard.press("n")
    expect(page.locator("#h-vectors")).to_be_focused()
    expect(page.locator(".toc > ol > li > [aria-current]")).to_have_text("Words become vectors")
    page.keyboard.press("p")
    expect(page.locator("#h-guess")).to_be_focused()
    page.keyboard.press(".")
    expect(page.locator(".num:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#why h2")).to_contain_text("Why ")


def test_on_a_phone_the_answer_is_a_sheet(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(server + PATH)
    page.locator("#guess p .live").first.click()
    expect(page.locator("#why-aside.open")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#why-aside.open")).to_have_count(0)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_access(page: Page, server: str, axe: Callable[..., list[str]], width: int) -> None:
    page.goto(f"{server}{PATH}?all=1")
    page.locator("#vectors p .live").first.click()
    expect(page.locator("#why h2")).to_contain_text("Why ")
    page.keyboard.press("Escape")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/lessons", "/embed/cut", "/embed/arrows?at=calc(1%2B1)"])
def test_access_of_the_others(page: Page, server: str, axe: Callable[..., list[str]], path: str) -> None:
    page.goto(server + path)
    assert axe(page) == []


def test_a_wrong_setting_is_said_and_the_part_stays(page: Page, server: str, watch: Any) -> None:
    watch.allow("status of 400")
    page.goto(f"{server}/embed/neighbours")
    fill(page, "neighbours", "a", "notaword at all")
    page.locator("#live-neighbours .controls button").click()
    expect(page.locator("#notice")).to_contain_text("tokens")
    expect(page.locator("#live-neighbours table").first).to_be_visible()
    fill(page, "neighbours", "a", " dog")
    page.locator("#live-neighbours .controls button").click()
    expect(page.locator("#notice")).to_be_empty()
