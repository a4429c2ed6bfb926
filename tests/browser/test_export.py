"""A file saved from the site and opened from disk: the same numbers, and not one request."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, Watch

AT = "blocks.1.attn.qk[1,5,3]"
TEXT = "The cat sat on the mat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def saved(page: Page, server: str, folder: Path, name: str, **query: str) -> Path:
    """What a reader's browser puts on their disk."""
    more = "".join(f"&{key}={quote(value)}" for key, value in query.items())
    with page.expect_download() as download:
        page.evaluate("url => { location.href = url }", f"{server}/export/{name}?text={quote(TEXT)}{more}")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def opened(page: Page, path: Path, watch: Watch, fragment: str = "") -> list[str]:
    """Open a file from disk. Returns the requests of the page, as they come."""
    watch.allow("request to another host: file://")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri() + fragment)
    return asked


def numbers_of(page: Page, panel: str) -> list[str]:
    """The value, the terms' rows and the check of one panel."""
    return page.locator(f"{panel} h2 .it, {panel} .terms tbody tr, {panel} .check dd").all_inner_texts()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_file_shows_what_the_page_shows(
    open_page: OpenPage, page: Page, server: str, folder: Path, watch: Watch, javascript: bool
) -> None:
    page.goto(f"{server}/explore?text={quote(TEXT)}&at={AT}")
    path = saved(page, server, folder, "why.html", at=AT)
    file = open_page(javascript=javascript)
    asked = opened(file, path, watch)
    root = f"[id='{AT}']"
    shown = numbers_of(page, "#why")
    mine = numbers_of(file, root)
    assert mine[0] == shown[0] and mine[-3:] == shown[-3:]
    assert mine[1:11] == shown[1:11]
    assert len(mine) - 5 == 32, "all terms and their total"

    first = file.locator(f"{root} .terms tbody td a").first
    at = str(first.get_attribute("href"))[1:]
    panel = file.locator(f"[id='{at}'] .opened")
    expect(panel).to_be_hidden()
    first.click()
    expect(panel).to_be_visible()
    expect(panel).to_be_in_viewport()
    page.goto(f"{server}/explore?text={quote(TEXT)}&at={at}")
    assert numbers_of(file, f"[id='{at}']") == numbers_of(page, "#why")
    file.go_back()
    expect(panel).to_be_hidden()
    assert asked == [path.as_uri()], "the file itself is all that is read"


def test_a_live_part_and_a_lesson_from_disk(page: Page, server: str, folder: Path, watch: Watch) -> None:
    page.goto(f"{server}/embed/arrows?text={quote(TEXT)}&ax=2&by=-1.5")
    shown = page.locator(".live-part .facts-of").inner_text()
    part = saved(page, server, folder, "arrows.html", ax="2", by="-1.5")
    lesson = saved(page, server, folder, "lessons/math.html", depth="0")
    asked = opened(page, part, watch)
    assert page.locator(".live-part .facts-of").inner_text() == shown
    page.locator(".live-part a.num").first.click()
    expect(page.locator(".input:target .check")).to_be_visible()
    page.goto(lesson.as_uri())
    page.get_by_role("link", name="Backpropagation", exact=True).click()
    expect(page.locator("#h-backprop, section:target > h2").first).to_be_in_viewport()
    assert set(asked) <= {part.as_uri(), lesson.as_uri(), lesson.as_uri() + "#backprop"}


@pytest.mark.parametrize(("width", "color_scheme"), [(390, "dark"), (1440, "light")])
def test_access(page: Page, server: str, folder: Path, watch: Watch, axe, color_scheme: str, width: int) -> None:
    page.goto(f"{server}/explore?text={quote(TEXT)}")
    path = saved(page, server, folder, "why.html", at=AT)
    opened(page, path, watch, f"#{AT.replace('qk[1,5,3]', 'q[5,1,3]')}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe(page) == []


def test_on_paper(page: Page, server: str, folder: Path, watch: Watch) -> None:
    """The explanation and the list of its inputs; no column beside, nothing cut off by a box that scrolls."""
    page.goto(f"{server}/explore?text={quote(TEXT)}")
    path = saved(page, server, folder, "why.html", at=AT)
    opened(page, path, watch)
    page.emulate_media(media="print")
    expect(page.locator(".root .terms")).to_be_visible()
    assert page.locator(".inputs").evaluate("e => [getComputedStyle(e).position, getComputedStyle(e).overflowY]") == [
        "static",
        "visible",
    ]
    below = page.locator(".inputs").bounding_box()
    above = page.locator(".root").bounding_box()
    assert below is not None and above is not None and below["y"] >= above["y"] + above["height"]
