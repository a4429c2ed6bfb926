"""Embeds on a page of another origin, and the share dialog: heights that fit, themes, keys, no complaint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Frame, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from app.features.share import host_script
from tests.browser.conftest import Watch, serve
from tests.embedding_docs import snippets

THREE = ("temperature?temperature=0.5", "why?at=logits[14,5]", "arrows?ax=1")
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A course</title>
<meta name="viewport" content="width=device-width"></head><body><main><h1>A course page</h1>{body}</main></body>
</html>"""


class Host:
    """A site of its own that shows whatever body it is given."""

    def __init__(self) -> None:
        self.body = self.address = ""

    def app(self) -> Starlette:
        async def show(_request: Request) -> HTMLResponse:
            return HTMLResponse(PAGE.format(body=self.body))

        return Starlette(routes=[Route("/", show), Route("/favicon.ico", show)])

    def show(self, page: Page, body: str) -> None:
        self.body = body
        page.goto(self.address)


@pytest.fixture(scope="module")
def served_host() -> Iterator[Host]:
    host = Host()
    for address in serve(host.app()):
        host.address = f"{address}/"
        yield host


@pytest.fixture
def host(served_host: Host, watch: Watch) -> Host:
    watch.allow(f"request to another host: {re.escape(served_host.address)}")
    return served_host


def frame_html(server: str, what: str, look: str = "") -> str:
    more = f"{'&' if '?' in what else '?'}{look}" if look else ""
    return (
        f'<iframe src="{server}/embed/{what}{more}" title="{what}" width="100%" height="120" loading="eager"></iframe>'
    )


def script_html(server: str, integrity: str | None = None) -> str:
    integrity = integrity or host_script.integrity()
    return f'<script src="{server}{host_script.url()}" integrity="{integrity}" crossorigin="anonymous" async></script>'


def heights(page: Page, n: int) -> list[tuple[int, int]]:
    """Of each frame: how high it is, and how high what it shows."""
    found = []
    for k in range(n):
        element = page.locator("iframe").nth(k)
        element.scroll_into_view_if_needed()
        frame = element.element_handle().content_frame()
        assert frame is not None
        frame.wait_for_load_state("load")
        content = frame.evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)")
        found.append((element.evaluate("e => e.clientHeight"), content))
    return found


def fit(page: Page, n: int) -> bool:
    return all(shown == content > 120 for shown, content in heights(page, n))


def wait_until_fit(page: Page, n: int) -> None:
    for _ in range(60):
        if fit(page, n):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"frames do not fit: {heights(page, n)}")


def frame_at(page: Page, path: str) -> Frame:
    return next(frame for frame in page.frames if urlsplit(frame.url).path == path)


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1440, "light"), (1440, "dark")])
def test_three_on_another_origin_are_as_high_as_they_are(
    page: Page, server: str, host: Host, axe: Callable[..., list[str]], theme: str
) -> None:
    frames = "".join(frame_html(server, what, f"theme={theme}&accent=teal") for what in THREE)
    frames = frames.replace("<iframe", '<iframe style="box-sizing:border-box;border:3px solid"', 1)
    host.show(page, frames + script_html(server))
    wait_until_fit(page, 3)
    paper = "rgb(253, 253, 251)" if theme == "light" else "rgb(20, 22, 26)"
    for frame in page.frames[1:]:
        assert frame.evaluate("getComputedStyle(document.body).backgroundColor") == paper
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe(page) == []


def test_a_frame_far_below_fits_before_it_is_reached(page: Page, server: str, host: Host) -> None:
    below = '<p style="height:9000px">A long chapter.</p>' + frame_html(server, "temperature")
    host.show(page, script_html(server) + below)
    frame = page.locator("iframe")
    expect(frame).not_to_have_css("height", "120px")
    assert frame.bounding_box()["y"] > 8000  # nothing was scrolled
    inside = frame_at(page, "/embed/temperature").evaluate(
        "Math.ceil(document.documentElement.getBoundingClientRect().height)"
    )
    assert frame.evaluate("e => e.clientHeight") == inside


def test_a_click_grows_the_frame_and_stays_in_it(page: Page, server: str, host: Host) -> None:
    host.show(page, script_html(server) + frame_html(server, "temperature", "theme=dark&hide=nudge"))
    wait_until_fit(page, 1)
    before = heights(page, 1)[0][0]
    frame = frame_at(page, "/embed/temperature")
    frame.locator(".live-part a.num").first.click()
    expect(frame.locator("#why .addr").first).to_have_text(re.compile(r"logits\["))
    wait_until_fit(page, 1)
    assert heights(page, 1)[0][0] > before
    first = frame.locator("#why .addr").first.inner_text()
    frame.locator("#why .ends dd a, #why .terms a").first.click()
    expect(frame.locator("#why .addr").first).not_to_have_text(first)
    assert frame.locator("#why .trail li").count() == 2
    assert urlsplit(frame.url).path == "/embed/temperature" and page.url == host.address
    assert "theme=dark" in frame.url and frame.locator("html").get_attribute("data-theme") == "dark"
    opened = urlsplit(frame.locator("#why-open").get_attribute("href") or "")
    assert opened.path == "/explore" and "theme" not in opened.query and "temperature=" not in opened.query


def test_an_explanation_is_followed_without_javascript(open_page: Callable[..., Page], server: str, host: Host) -> None:
    page = open_page(javascript=False)
    host.show(page, frame_html(server, "why?at=loss", "accent=blue").replace('height="120"', 'height="900"'))
    frame = frame_at(page, "/embed/why")
    frame.locator("#why .ends dd a").first.click()
    expect(page.frame_locator("iframe").locator("#why .addr").first).to_have_text(re.compile(r"loss_per_token"))
    inside = frame_at(page, "/embed/why")
    assert "accent=blue" in inside.url and "trail=loss" in inside.url


def test_only_messages_of_own_frames_count(page: Page, server: str, host: Host) -> None:
    host.show(
        page, script_html(server) + frame_html(server, "temperature") + '<iframe id="other" title="other"></iframe>'
    )
    wait_until_fit(page, 1)
    good = heights(page, 1)[0][0]
    page.evaluate("window.postMessage({type: 'everynumber:height', height: 4321}, '*')")
    page.evaluate(
        """() => { const w = document.querySelector('#other').contentWindow;
                   w.eval("parent.postMessage({type: 'everynumber:height', height: 4321}, '*')"); }"""
    )
    inside = frame_at(page, "/embed/temperature")
    inside.evaluate("parent.postMessage({type: 'everynumber:height', height: 'x'}, '*')")
    inside.evaluate("parent.postMessage({type: 'other', height: 4321}, '*')")
    page.wait_for_timeout(200)
    assert heights(page, 1)[0][0] == good
    assert page.locator("#other").evaluate("e => e.clientHeight") != 4321


def test_a_script_that_was_changed_is_left_out(page: Page, server: str, host: Host, watch: Watch) -> None:
    watch.allow("integrity")
    wrong = "sha384-" + "A" * 64
    host.show(page, frame_html(server, "temperature") + script_html(server, wrong))
    page.wait_for_timeout(500)
    assert heights(page, 1)[0][0] == 120


def test_what_is_hidden_is_not_seen_but_sent(page: Page, server: str) -> None:
    page.goto(f"{server}/embed/cut?hide=seed,captions&seed=7")
    expect(page.locator(".controls [name=seed]")).to_be_hidden()
    expect(page.locator("[name=top_k]").last).to_be_visible()
    expect(page.locator(".live-part .caption").first).to_be_hidden()
    page.locator("[name=top_k][type=number]").fill("3")
    page.keyboard.press("Tab")
    expect(page.locator(".live-out")).to_contain_text("3 of 2,304 tokens stay")
    assert "seed=7" in page.url and "hide=seed,captions" in page.url.replace("%2C", ",")


@pytest.mark.parametrize("name", ["html", "moodle", "canvas", "quarto"])
def test_snippets_of_the_docs(page: Page, server: str, host: Host, name: str) -> None:
    body = re.sub(r"^```.*$", "", snippets(server)[name], flags=re.MULTILINE)
    host.show(page, body + snippets(server)["script"])
    page.locator("iframe").scroll_into_view_if_needed()
    wait_until_fit(page, 1)


# -- for everyone


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_access(page: Page, server: str, axe: Callable[..., list[str]], width: int) -> None:
    for path in ("why?at=probs[14,5]", "values?at=blocks.1.attn.pattern[1,14,2]", "temperature?at=logits[14,5]"):
        page.goto(f"{server}/embed/{path}&accent={'amber' if width == 390 else ''}")
        assert axe(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width


# -- the dialog


@pytest.mark.parametrize(("width", "color_scheme"), [(390, "dark"), (1440, "light")])
@pytest.mark.parametrize(
    ("path", "opener"),
    [
        ("/explore?at=logits[14,5]", "#why a[data-share]"),
        ("/lessons/transformer", ".live-part:not(.later) a[data-share]"),
    ],
)
def test_the_dialog(page: Page, server: str, axe: Callable[..., list[str]], path: str, opener: str, width: int) -> None:
    page.goto(server + path)
    link = page.locator(opener).first
    link.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog#share-dialog")
    expect(dialog).to_be_visible()
    expect(page.locator("#share-h")).to_be_focused()
    assert page.url == server + path
    assert axe(page, "#share-dialog") == []
    before = page.locator("#share-html").input_value()
    page.locator("dialog select[name=theme]").select_option("dark")
    expect(page.locator("#share-html")).not_to_have_value(before)
    assert "theme=dark" in page.locator("#share-html").input_value()
    assert "theme=dark" in (page.locator("dialog iframe").get_attribute("src") or "")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(link).to_be_focused()


def test_copying(open_page: Callable[..., Page], server: str) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{server}/share?url=/embed/temperature")
    page.locator('[data-copy="share-html"]').click()
    expect(page.locator('[data-copy="share-html"]')).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#share-html").input_value()


def test_sharing_without_javascript(plain_page: Page, server: str) -> None:
    plain_page.goto(f"{server}/explore?at=logits[14,5]")
    plain_page.locator("#why a[data-share]").click()
    assert urlsplit(plain_page.url).path == "/share"
    plain_page.locator("select[name=theme]").select_option("light")
    plain_page.locator(".share-look button").click()
    assert "theme=light" in plain_page.locator("#share-html").input_value()
    expect(plain_page.locator("[data-copy]").first).to_be_hidden()
