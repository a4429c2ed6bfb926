"""Getting GPT-2 in a browser, with and without JavaScript, from a stand-in for the hub; waiting for a model to load."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

import app.panels.loading
import app.stores.models
from app.main import create_app
from app.settings import AppSettings
from model import LanguageModel
from model.weights.checkpoints import WEIGHTS
from tests.app.conftest import save_checkpoint
from tests.browser.conftest import OpenPage, Watch, serve
from tests.stand_in_hub import PIECE, StandIn, stand_in_hub

SOON = 20_000  # milliseconds for a page that polls, on a busy machine


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    with stand_in_hub(monkeypatch, tmp_path, save_checkpoint(tmp_path / "offered")) as state:
        yield state


@pytest.fixture
def home(hub: StandIn, watch: Watch) -> Iterator[str]:
    """The address of a server that has no GPT-2 yet."""
    for url in serve(create_app(AppSettings())):
        watch.home = urlsplit(url).netloc
        yield url


def begin(page: Page, home: str) -> None:
    """Ask for GPT-2 in the menu of the explorer."""
    page.goto(f"{home}/explore?text=The+dog")
    page.locator("#models summary").click()
    page.get_by_role("button", name=re.compile(r"Get GPT-2 \(\d+ kB\)")).click()
    expect(page).to_have_url(f"{home}/models")
    expect(page.locator("article").first).to_have_attribute("id", "model-gpt2")
    expect(page.locator("#model-gpt2 progress")).to_be_visible()


@pytest.mark.parametrize("javascript", [True, False])
def test_gpt2_is_fetched_and_explored(open_page: OpenPage, home: str, hub: StandIn, javascript: bool) -> None:
    hub.holds_at = 6 * PIECE
    page = open_page(javascript=javascript)
    begin(page, home)
    card = page.locator("#model-gpt2")
    expect(card.locator("progress")).not_to_have_attribute("value", "0")
    expect(card).to_contain_text("of 2")  # 98 kB of 2xx kB
    hub.may_go_on.set()
    expect(card.get_by_role("link", name="Explore GPT-2")).to_be_visible(timeout=SOON)  # by itself
    card.get_by_role("link", name="Explore GPT-2").click()
    expect(page.locator("#models summary")).to_contain_text("gpt2")
    expect(page.locator("#values .num").first).to_be_visible()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_download_is_stopped_and_gone_on_with(open_page: OpenPage, home: str, hub: StandIn, javascript: bool) -> None:
    hub.holds_at = 6 * PIECE
    page = open_page(javascript=javascript)
    begin(page, home)
    card = page.locator("#model-gpt2")
    expect(card.locator("progress")).not_to_have_attribute("value", "0")
    card.get_by_role("button", name="Stop").click()
    hub.may_go_on.set()
    expect(card).to_contain_text("What has come is kept", timeout=SOON)
    card.get_by_role("button", name="Go on").click()
    expect(card.get_by_role("link", name="Explore GPT-2")).to_be_visible(timeout=SOON)


@pytest.mark.parametrize("javascript", [True, False])
def test_a_failure_is_told_where_it_was_asked_for(
    open_page: OpenPage, home: str, hub: StandIn, javascript: bool
) -> None:
    hub.content[WEIGHTS] = b"\0" * (hub.directory / WEIGHTS).stat().st_size
    hub.seconds_a_piece = 0.1
    page = open_page(javascript=javascript)
    begin(page, home)
    card = page.locator("#model-gpt2")
    expect(card.get_by_role("alert")).to_contain_text("checksum is wrong", timeout=SOON)
    hub.content.clear()
    card.get_by_role("button", name="Try again").click()
    expect(card.get_by_role("link", name="Explore GPT-2")).to_be_visible(timeout=SOON)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_of_models_is_accessible(page: Page, home: str, hub: StandIn, axe: Callable[..., list[str]]) -> None:
    page.goto(f"{home}/models")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#models summary").click()
    assert axe(page, "#models") == []


@pytest.mark.parametrize("javascript", [True, False])
def test_a_page_waits_for_its_model_and_then_shows_itself(
    open_page: OpenPage, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, javascript: bool
) -> None:
    save_checkpoint(tmp_path / "large")
    go_on, real = threading.Event(), app.stores.models.load

    def slow(source: Any, *, called: str, advance: Callable[[float], None], device: Any) -> LanguageModel:
        if called == "large":
            advance(0.43)
            assert go_on.wait(30)
        return real(source, called=called, advance=advance, device=device)

    monkeypatch.setattr(app.stores.models, "load", slow)
    monkeypatch.setattr(app.panels.loading, "PATIENCE", 0.1)
    for home in serve(create_app(AppSettings(models=str(tmp_path)))):
        watch.home = urlsplit(home).netloc
        page = open_page(javascript=javascript)
        page.goto(f"{home}/explore?model=large&text=The+dog&at=logits[1,5]")
        expect(page.get_by_role("heading", name="Loading large")).to_be_visible()
        expect(page.get_by_role("progressbar")).to_have_attribute("value", "43", timeout=SOON)
        go_on.set()
        expect(page.locator("#values [aria-current]").first).to_be_visible(timeout=SOON)
        expect(page).to_have_url(f"{home}/explore?model=large&text=The+dog&at=logits[1,5]")
