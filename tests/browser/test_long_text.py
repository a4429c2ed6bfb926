"""The explorer on a text that stands packed in the page's path, with and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.main import create_app
from app.settings import AppSettings
from tests.app.conftest import save_checkpoint
from tests.browser.conftest import serve

TEXT = "Mary gave a drink to John, and then they went to the store. " * 30
AT = "blocks.1.attn.q[400,1,3]"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on a model that reads long texts, none of which it keeps whole; in place of the usual one."""
    directory = save_checkpoint(tmp_path_factory.mktemp("models") / "long", n_ctx=700)
    yield from serve(create_app(AppSettings(model=str(directory), long_run_mb=1)))


def opened(page: Page, server: str) -> None:
    """The page of a long text, as its form sends it."""
    page.goto(f"{server}/explore")
    page.locator("#ask textarea").fill(TEXT)
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/~*/explore?*")


@pytest.fixture(params=["page", "plain_page"])
def reader(request: pytest.FixtureRequest) -> Page:
    """With JavaScript and without."""
    found: Page = request.getfixturevalue(request.param)
    return found


def test_clicks_and_forms_stay_with_the_text(reader: Page, server: str) -> None:
    opened(reader, server)
    reader.goto(reader.url.split("?")[0] + f"?at={AT}")
    path = reader.url.split("?")[0]
    panel = reader.locator("#why .address")
    expect(panel).to_have_text(AT)
    reader.locator("#values table").get_by_role("link").nth(20).click()
    expect(panel).not_to_have_text(AT)
    assert reader.url.startswith(path)
    reader.locator("#goto").fill("blocks.0.mlp.post[400,9]")
    reader.locator(".goto button").click()
    expect(panel).to_have_text("blocks.0.mlp.post[400,9]")
    reader.locator(".jump input[name=row]").fill("320")
    reader.locator(".jump button").click()
    expect(reader.locator("#values .pager").first).to_contain_text("pos 320")
    assert reader.url.startswith(path)
    reader.locator("#why").get_by_role("link", name="Gradient").click()
    expect(panel).to_have_text("blocks.0.mlp.post[400,9].grad")
    expect(reader.locator("#ask textarea")).to_have_value(TEXT)
    reader.reload()
    expect(panel).to_have_text("blocks.0.mlp.post[400,9].grad")
    reader.go_back()
    expect(panel).to_have_text("blocks.0.mlp.post[400,9]")


def test_left_out_tokens_are_a_click_away(page: Page, server: str) -> None:
    opened(page, server)
    page.goto(page.url.split("?")[0] + f"?at={AT}")
    assert page.locator("#tokens .token").count() < 100
    page.locator("#tokens .gap").first.click()
    expect(page.locator("#why .address")).to_contain_text("tokens[")
    expect(page.locator("#tokens .token[aria-current]")).to_have_count(1)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_anyone_can_read_it(page: Page, server: str, axe: Callable[[Page], list[Any]]) -> None:
    opened(page, server)
    page.goto(page.url.split("?")[0] + f"?at={AT}")
    assert axe(page) == []
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
