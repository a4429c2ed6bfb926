"""The second lesson in a browser: every live part used with and without JavaScript, numbers opened, keys, access."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.features.lessons.math import LESSON

PATH = "/lessons/math"
NAMES = [part.name for part in LESSON.live_parts]
WAIT = 30_000  # milliseconds that ten steps of learning may take on a busy machine

# A part, the field to set, its new value, and words that the part then shows.
USED = [
    ("math_dot", "key", "0", "Together"),
    ("math_dot", "head", "1", "Together"),
    ("math_words", "add", "5", "Every score has moved by 5"),
    ("math_divide", "block", "0", "asks in block 0"),
    ("math_scales", "rank", "3", "Rank 3 is"),
    ("math_cost", "answer", " them", "Had the answer been"),
    ("math_nudge", "h", "0.5", "score 0.5 higher"),
    ("math_slopes", "words", "2", "They cancel"),
    ("math_learn", "eta", "0.01", "One step"),
    ("math_learn", "steps", "2", "2 steps"),
]

# A part without a form, a link in it, and words that the part then shows.
FOLLOWED = [
    ("math_pull", "later", "Entries 5 to 9"),
    ("math_back", "weights of block 0", "Down to the weights: block 0"),
]


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize(("part", "name", "value", "says"), USED)
def test_a_form_is_sent(
    open_page: Callable[..., Page], server: str, javascript: bool, part: str, name: str, value: str, says: str
) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/embed/{part}")
    field = page.locator(f"#live-{part} .controls [name={name}]")
    if field.evaluate("field => field.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)
    page.locator(f"#live-{part} .controls button").click()
    expect(page).to_have_url(re.compile(rf"{name}="), timeout=WAIT)
    expect(page.locator(f"#live-{part}-out")).to_contain_text(re.compile(says), timeout=WAIT)
    page.wait_for_load_state("networkidle")
    page.reload()
    expect(page.locator(f"#live-{part} .controls [name={name}]")).to_have_value(value)


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize(("part", "link", "says"), FOLLOWED)
def test_a_link_is_followed(
    open_page: Callable[..., Page], server: str, javascript: bool, part: str, link: str, says: str
) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/embed/{part}")
    page.locator(f"#live-{part}").get_by_role("link", name=link).click()
    expect(page.locator(f"#live-{part}-out")).to_contain_text(says)
    expect(page).to_have_url(re.compile(rf"/embed/{part}\?.*(start|block)="))


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize("part", NAMES)
def test_a_number_is_opened(open_page: Callable[..., Page], server: str, javascript: bool, part: str) -> None:
    page = open_page(javascript=javascript, width=1440)
    page.goto(f"{server}/embed/{part}")
    page.locator(f"#live-{part} .live-out a.num[href^='/embed']:not([href*='set=']):visible").nth(1).click(timeout=WAIT)
    expect(page.locator("#why h2")).to_contain_text("Why ")
    expect(page).to_have_url(re.compile("/embed/.*at="))
    page.reload()
    expect(page.locator("#why h2")).to_contain_text("Why ")


@pytest.mark.parametrize("javascript", [True, False])
def test_another_key(open_page: Callable[..., Page], server: str, javascript: bool) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"{server}/embed/math_dot")
    page.locator("#live-math_dot .token").nth(4).click()
    expect(page.locator("#live-math_dot .token").nth(4)).to_have_attribute("aria-current", "true")
    expect(page.locator("#live-math_dot .controls [name=key]")).to_have_value("4")


def test_the_nudge_acts_while_it_slides(page: Page, server: str) -> None:
    page.goto(f"{server}/embed/math_nudge")
    slider = page.get_by_role("slider", name="h, added to the score, slider")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("[name=h]")).to_have_value("1.97")
    expect(page.locator("#live-math_nudge")).to_contain_text("score 1.97 higher")
    expect(slider).to_be_focused()


def test_a_point_of_the_curve_takes_its_eta(page: Page, server: str) -> None:
    """Inside the lesson the part alone changes, and the address stays the lesson's."""
    page.goto(f"{server}{PATH}#steps")
    part = page.locator("#live-math_learn")
    part.scroll_into_view_if_needed()
    expect(part.locator(".wide-chart svg")).to_be_visible(timeout=WAIT)
    before = part.locator(".says").first.inner_text()
    part.locator(".wide-chart svg a").nth(2).click(force=True)
    expect(part.locator(".says").first).not_to_have_text(before, timeout=WAIT)
    expect(page).to_have_url(re.compile(PATH))
    expect(part.locator(".controls [name=eta]")).not_to_have_value("")


def test_parts_come_in_as_the_reader_comes_near(page: Page, server: str) -> None:
    page.goto(server + PATH)
    assert page.locator("#live-math_cost.later").count() == 1
    page.locator("#live-math_cost").scroll_into_view_if_needed()
    expect(page.locator("#live-math_cost .controls")).to_be_visible()
    assert PATH in page.url


def test_a_number_of_the_prose_opens_beside_it(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(server + PATH)
    number = page.locator("[data-claim=votes] .live").first
    number.click()
    expect(page.locator("#why h2")).to_contain_text("Why ")
    expect(number).to_have_class(re.compile(r"\bon\b"))
    page.locator("#why .num").first.click()
    expect(page.locator("#why-open")).to_have_attribute("href", re.compile("^/explore.*at="))
    page.reload()
    expect(page.locator("#why h2")).to_contain_text("Why ")


def test_without_javascript_parts_are_links(open_page: Callable[..., Page], server: str) -> None:
    page = open_page(javascript=False)
    page.goto(server + PATH)
    page.locator("[data-claim=ratio] .live").first.click()
    expect(page).to_have_url(re.compile("/explore"))
    page.go_back()
    page.locator("#live-math_pull a").click()
    expect(page).to_have_url(re.compile("/embed/math_pull"))
    with page.expect_popup() as lesson:
        page.get_by_role("link", name="In the lesson").click()
    expect(lesson.value).to_have_url(re.compile(r"/lessons/math\?.*#pull$"))


def test_keys_and_contents(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(server + PATH)
    page.keyboard.press("n")
    expect(page.locator("#h-dot")).to_be_focused()
    page.keyboard.press("n")
    expect(page.locator("#h-scores")).to_be_focused()
    expect(page.locator(".toc > ol > li > [aria-current]")).to_have_text("Scores into probabilities")
    page.keyboard.press("p")
    expect(page.locator("#h-dot")).to_be_focused()


def test_the_sentence_of_the_page_is_set(page: Page, server: str) -> None:
    page.goto(server + PATH)
    page.locator("#ask [name=text]").fill("The cat sat on the")
    page.locator("#ask [name=target]").fill("")
    page.locator("#ask button").click()
    expect(page).to_have_url(re.compile("text=The"))
    expect(page.locator("[data-claim=product]")).to_contain_text("product of 5 numbers")


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_access(page: Page, server: str, axe: Callable[..., list[str]], width: int) -> None:
    page.goto(f"{server}{PATH}?all=1")
    expect(page.locator("#live-math_learn .wide-chart svg")).to_be_visible(timeout=WAIT)
    page.locator("[data-claim=votes] .live").first.click()
    expect(page.locator("#why h2")).to_contain_text("Why ")
    page.keyboard.press("Escape")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
