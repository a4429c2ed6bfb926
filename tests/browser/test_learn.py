"""Learn and What if in the browser: to the curve, stop, finish, click a number; without JavaScript too."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect

from app.request.state import DEFAULT_TEXT, State
from app.stores import jobs
from app.stores.learned import Learned, learn
from model import Run


class Slow:
    """Work that takes its time while `is_on`."""

    is_on = False

    def learn(self, run: Run, steps: int, advance: Callable[[float], None]) -> Learned:
        def slowly(done: float) -> None:
            advance(done)
            time.sleep(0.15 if self.is_on else 0)

        return learn(run, steps, slowly)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Jobs last long enough to be watched and stopped."""
    slow = Slow()
    slow.is_on = True
    monkeypatch.setattr(jobs, "learn", slow.learn)
    yield slow
    slow.is_on = False


def test_from_the_loss_to_the_curve_stop_finish_and_a_number(page: Page, slow: Slow):
    page.goto(f"/explore?text={DEFAULT_TEXT}&target= Mary&eta=0.00123")
    page.get_by_role("link", name="Let it learn").click()
    expect(page.locator(".job-says")).to_contain_text("Taking 10 steps", timeout=15_000)
    expect(page.locator(".job-says")).to_contain_text("seconds left", timeout=15_000)
    page.get_by_role("button", name="Stop").click()
    expect(page).to_have_url(re.compile("go=0"))
    expect(page.locator(".job")).to_contain_text("Take the steps")
    slow.is_on = False
    page.get_by_role("link", name="Take the steps").click()
    expect(page.locator(".verdict")).to_contain_text("One step lowers the loss", timeout=60_000)
    assert page.locator("figure .chart circle.dot").count() > 41
    page.get_by_role("region", name="Loss and probabilities after each step").get_by_role("button").nth(12).click()
    expect(page.locator(".why")).to_be_visible()
    assert ".step(" in unquote(page.url) and "eta=0.00123" in page.url


def test_a_page_that_waits_fills_itself(page: Page, slow: Slow):
    page.goto(State(text="The keys to the old house", steps=2, eta=0.0007).url("/learn"))
    expect(page.locator("progress")).to_be_visible()
    slow.is_on = False
    expect(page.locator(".verdict")).to_be_visible(timeout=60_000)


def test_without_javascript(plain_page: Page, slow: Slow):
    plain_page.goto(State(text="A young dog is called a", steps=2, eta=0.0008).url("/learn"))
    expect(plain_page.locator("progress")).to_be_visible()
    slow.is_on = False
    expect(plain_page.locator(".verdict")).to_be_visible(timeout=60_000)  # the page reloads itself
    plain_page.locator("input[name=at]").fill("blocks.0.mlp.W_in[5,77]")
    plain_page.get_by_role("button", name="Show").click()
    row = plain_page.locator("#weights tr.here")
    expect(row).to_contain_text("[5,77]")
    row.get_by_role("button").nth(2).click()
    assert "blocks.0.mlp.W_in[5,77].grad" in unquote(plain_page.url)
    expect(plain_page.locator(".why")).to_be_visible()


def test_an_eta_is_chosen_on_the_curve(page: Page):
    page.goto(State(text="A young dog is called a", steps=1, eta=0.001).url("/learn"))
    page.locator("figure a").last.click()
    expect(page).to_have_url(re.compile("eta=0.004"))
    expect(page.locator(".verdict")).to_be_visible(timeout=60_000)


@pytest.mark.parametrize("javascript", [True, False])
def test_what_if_from_the_choices_to_the_changed_run(page: Page, plain_page: Page, javascript: bool):
    page = page if javascript else plain_page
    page.goto("/whatif")
    page.locator("select[name=set]").select_option("blocks.1.attn.z[:,2,:]=0")
    page.get_by_role("button", name="Switch off").first.click()
    expect(page.locator(".verdict")).to_contain_text("The loss")
    page.get_by_role("link", name="Explore the changed run").click()
    expect(page.locator(".set-note")).to_contain_text("numbers were set by you")
    page.locator(".set-note").get_by_role("link", name="Take them away").click()
    expect(page.locator(".set-note")).to_have_count(0)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("url", ["/learn?steps=3", "/whatif?set=blocks.1.attn.z[:,2,:]%3D0"])
def test_access(page: Page, axe: Callable[..., list[str]], url: str):
    page.goto(url)
    expect(page.locator(".verdict")).to_be_visible(timeout=60_000)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
