"""Generation in a browser: tokens appear, a click opens a choice, a token taken makes a branch, Stop stops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch, serve

TEXT = "Once upon a time, there was a"
URL = "/generate?text=Once%20upon%20a%20time,%20there%20was%20a&temperature=1.2"
TOY = "/generate?model=toy&temperature=2&seed=4&n=6&step=5"  # its context is full before the end


@pytest.fixture(scope="module")
def slow() -> Iterator[str]:
    """A server that makes one token a request, as with a large model."""
    from app.main import create_app
    from app.settings import AppSettings

    yield from serve(create_app(AppSettings(generate_seconds=0)))


@pytest.fixture
def slow_watch(watch: Watch, slow: str) -> Watch:
    watch.home = slow.removeprefix("http://")
    return watch


# -- for everyone


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("path", [f"{URL}&n=8&step=2", f"{URL}&n=4&step=1&pick=1:900&first=12", TOY])
def test_access(page: Page, server: str, axe: Callable[..., list[str]], path: str, width: int) -> None:
    page.goto(server + path)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_access_of_buttons(page: Page, server: str, axe: Callable[..., list[str]]) -> None:
    page.goto(f"{server}/generate?n=4&text={'Once%20upon%20a%20time%20' * 25}")
    assert page.locator("#choice button.num").count() > 20 and page.locator("button.made").count() > 0
    assert axe(page) == []
    page.locator("button.made").last.click()
    expect(page.locator("button.made").last).to_have_attribute("aria-current", "true")
    page.locator("#choice button.num").nth(2).click()
    expect(page.locator("#why h2")).to_be_visible()


def test_access_of_a_refusal(page: Page, server: str, watch: Watch, axe: Callable[..., list[str]]) -> None:
    watch.allow("status of 400")
    page.goto(f"{server}/generate?temperature=9")
    expect(page.locator("#ask [name=temperature]")).to_have_attribute("aria-invalid", "true")
    assert axe(page) == []
    page.fill("#ask [name=temperature]", "1")
    page.locator("#ask button").click()
    expect(page.locator("#made-0")).to_be_visible()
    expect(page.locator("#fault")).to_have_count(0)


# -- with JavaScript


def test_click_a_token_take_another_go_on(page: Page, server: str) -> None:
    page.goto(f"{server}{URL}&n=6")
    page.click("#made-2")
    expect(page.locator("#made-2")).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(re.compile(r"step=2"))
    expect(page.locator("#made-2")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#made-3")).to_be_focused()
    before = page.locator(".made").all_inner_texts()
    button = page.locator(".take button").nth(2)
    taken = (button.get_attribute("value") or "").partition(":")[2]
    button.click()
    expect(page).to_have_url(re.compile(rf"pick=2:{taken}"))
    expect(page.locator("#made-2")).to_have_class(re.compile("yours"))
    expect(page.locator("#choice-h")).to_be_focused()
    assert page.locator(".made").all_inner_texts()[:2] == before[:2]
    after = page.locator(".made").all_inner_texts()
    page.reload()
    assert page.locator(".made").all_inner_texts() == after
    page.click("#drop")
    expect(page).not_to_have_url(re.compile("pick="))
    assert page.locator(".made").all_inner_texts() == before
    page.go_back()
    expect(page).to_have_url(re.compile(rf"pick=2:{taken}"))


def test_the_title_follows_what_is_shown(page: Page, server: str) -> None:
    page.goto(f"{server}{URL}&n=3")
    page.click("#made-2")
    expect(page).to_have_title("3 tokens made; token 2 · Generate · Every Number")
    page.fill("#ask [name=n]", "5")
    page.locator("#ask button").click()
    expect(page).to_have_title("5 tokens made; token 2 · Generate · Every Number")
    expect(page.locator("body title:not(svg title)")).to_have_count(0)


def test_the_title_says_when_all_are_made(page: Page, slow: str, slow_watch: Watch) -> None:
    page.goto(f"{slow}{URL}&n=7&seed=5")
    expect(page.locator("#coming")).to_have_count(0)
    n = page.locator(".made").count()
    expect(page).to_have_title(re.compile(rf"^{n} tokens made; "))
    expect(page.locator("body title:not(svg title)")).to_have_count(0)


def test_settings_act_at_once(page: Page, server: str) -> None:
    page.goto(f"{server}{URL}&n=5&pick=1:900")
    slider = page.locator("[data-pair=temperature]")
    slider.focus()
    slider.press("Home")
    expect(page.locator("#ask [name=temperature]")).to_have_value("0")
    expect(page).to_have_url(re.compile("temperature=0"))
    expect(page.locator("#choice .plain")).to_contain_text("nothing is drawn")
    assert "pick=1:900" in page.url, "the branch stays"
    page.fill("textarea", "A dog")
    page.locator("#ask button").click()
    expect(page).to_have_url(re.compile("text=A%20dog"))
    assert "pick" not in page.url, "another text, no branch"


def test_a_bad_value_is_told_in_place(page: Page, server: str, watch: Watch) -> None:
    watch.allow("status of 400")
    page.goto(f"{server}{URL}&n=3")
    page.fill("#ask [name=top_p]", "2")
    page.locator("#ask button").click()
    expect(page.locator("#notice")).to_contain_text("top_p is 2.0")
    expect(page.locator("#ask [name=top_p]")).to_have_value("2")
    page.fill("#ask [name=top_p]", "0.5")
    page.locator("#ask button").click()
    expect(page.locator("#notice")).to_be_empty()


def test_tokens_appear_and_stop(page: Page, slow: str, slow_watch: Watch) -> None:
    page.goto(f"{slow}{URL}&n=60&seed=5")
    page.click("#made-0")  # a click while they come
    expect(page.locator("#made-5")).to_be_visible()
    page.click("#stop")
    expect(page.locator("#coming")).to_have_count(0)
    n = page.locator(".made").count()
    assert 5 < n < 60
    expect(page.locator("#ask [name=n]")).to_have_value(str(n))
    expect(page).to_have_url(re.compile(rf"n={n}\b"))
    page.wait_for_timeout(300)
    assert page.locator(".made").count() == n
    page.click("#more")
    expect(page.locator(f"#made-{n}")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#coming")).to_have_count(0)


def test_all_of_them_come(page: Page, slow: str, slow_watch: Watch, server: str) -> None:
    page.goto(f"{slow}{URL}&n=7&seed=5")
    expect(page.locator("#coming")).to_have_count(0)
    slowly = page.locator(".made").all_inner_texts()
    assert len(slowly) == page.locator("#cache tbody tr").count() - 1
    slow_watch.home = server.removeprefix("http://")
    page.goto(f"{server}{URL}&n=7&seed=5")
    assert page.locator(".made").all_inner_texts() == slowly


def test_a_number_leads_to_its_explanation(page: Page, server: str) -> None:
    page.goto(f"{server}{URL}&n=3&step=1&top_k=5&top_p=0.8")
    shown = page.locator(".ranking .on a.num").nth(2)
    percent = float(shown.inner_text().removesuffix(" %"))
    shown.click()
    expect(page).to_have_url(re.compile(r"/explore\?.*at=calc"))
    value = float(page.locator("#why h2").inner_text().removeprefix("Why ").removesuffix("?"))
    assert abs(100 * value - percent) < 0.06


# -- without it


def test_without_javascript(plain_page: Page, slow: str, slow_watch: Watch) -> None:
    page = plain_page
    page.goto(f"{slow}/generate")
    page.fill("textarea", TEXT)
    page.fill("#ask [name=n]", "3")
    page.fill("#ask [name=seed]", "5")
    page.locator("#ask button").click()
    for n in (1, 2):
        expect(page.locator(".made")).to_have_count(n)
        page.click("#go-on")
    expect(page.locator(".made")).to_have_count(3)
    expect(page.locator("#go-on")).to_have_count(0)
    page.click("#made-1")
    expect(page.locator("#made-1")).to_have_attribute("aria-current", "true")
    page.locator(".take button").nth(1).click()
    page.click("#go-on")  # a branch is made from the start
    expect(page.locator("#made-1")).to_have_class(re.compile("yours"))
    expect(page).to_have_url(re.compile(r"pick=1(:|%3A)\d+"))
    page.click("#ranks-down")
    expect(page.locator("#ranks-up")).to_be_visible()
    page.locator("#choice a.num").first.click()
    expect(page.locator("#why h2")).to_be_visible()
