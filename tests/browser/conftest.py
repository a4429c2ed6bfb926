"""A real server and a real browser. Every page is watched: whatever it asks of another host, every error on its
console, every violation of the content security policy and every uncaught exception fails the test.

    def test_home(page, server):                        # JavaScript on; plain_page has it off
        page.goto(server)

    @pytest.mark.parametrize("color_scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [390, 1440])
    def test_access(page, server, axe, color_scheme, width):
        page.goto(server)
        assert axe(page) == []

    def test_unknown(page, server, watch):
        watch.allow("status of 404")                    # this page is meant to fail
        page.goto(f"{server}/nowhere")
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser import chromium

ColorScheme = Literal["light", "dark"]

ARGS = [
    "--no-sandbox",  # CI and containers run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the browser itself finds no other host either
]


def serve(app: Any) -> Iterator[str]:
    """Serve an ASGI app on a free port of this machine, from a thread; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 120
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the server did not start")
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        listener.close()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of the app, served with its default settings."""
    from app.main import create_app
    from app.settings import AppSettings

    yield from serve(create_app(AppSettings()))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One headless Chromium for all tests."""
    path = chromium.find()
    if path is None:
        pytest.fail(chromium.advice(), pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGS)
        yield browser
        browser.close()


class Watch:
    """What the pages of one test asked for and complained of."""

    def __init__(self, home: str) -> None:
        self.home = urlsplit(home).netloc
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.allowed: list[re.Pattern[str]] = []
        self.plain: list[BrowserContext] = []

    def allow(self, pattern: str) -> None:
        """Complaints that this pattern is found in are part of the test."""
        self.allowed.append(re.compile(pattern))

    def follow(self, context: BrowserContext, *, javascript: bool) -> None:
        if not javascript:
            self.plain.append(context)
        context.on("request", lambda request: self.asked(request.url))
        context.on("console", lambda message: self.said(message.type, message.text))
        context.on("weberror", lambda error: self.complaints.append(f"uncaught exception: {error.error}"))
        context.on("page", lambda page: page.on("websocket", lambda socket: self.asked(socket.url)))

    def asked(self, url: str) -> None:
        self.requests.append(url)
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != self.home:
            self.complaints.append(f"request to another host: {url}")

    def said(self, kind: str, text: str) -> None:
        if kind == "error" or "Content Security Policy" in text:
            self.complaints.append(f"console {kind}: {text}")

    def faults(self) -> list[str]:
        return [text for text in self.complaints if not any(pattern.search(text) for pattern in self.allowed)]


@pytest.fixture(autouse=True)
def watch(server: str) -> Iterator[Watch]:
    """Fails the test if one of its pages asked another host for something or complained."""
    watch = Watch(server)
    yield watch
    if faults := watch.faults():
        pytest.fail("the pages complained:\n  " + "\n  ".join(faults), pytrace=False)


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, server: str, watch: Watch) -> Iterator[OpenPage]:
    """Opens pages, each in a fresh watched context: `open_page(javascript=False, width=390, color_scheme="dark")`."""
    contexts: list[BrowserContext] = []

    def open_page(
        *,
        javascript: bool = True,
        width: int = 1280,
        height: int = 900,
        color_scheme: ColorScheme = "light",
        **options: Any,
    ) -> Page:
        context = browser.new_context(
            base_url=server,
            viewport={"width": width, "height": height},
            color_scheme=color_scheme,
            java_script_enabled=javascript,
            service_workers="block",
            **options,
        )
        contexts.append(context)
        context.set_default_timeout(15_000)
        watch.follow(context, javascript=javascript)
        return context.new_page()

    yield open_page
    for context in contexts:
        for page in context.pages:
            if not page.is_closed():
                page.wait_for_timeout(50)  # what the page still has to say reaches the watch
        context.close()


@pytest.fixture
def color_scheme() -> ColorScheme:
    """Light, unless a test is parametrised otherwise."""
    return "light"


@pytest.fixture
def width() -> int:
    """A desk's screen, unless a test is parametrised otherwise."""
    return 1280


@pytest.fixture
def page(open_page: OpenPage, color_scheme: ColorScheme, width: int) -> Page:
    """A page with JavaScript."""
    return open_page(color_scheme=color_scheme, width=width)


@pytest.fixture
def plain_page(open_page: OpenPage, color_scheme: ColorScheme, width: int) -> Page:
    """A page without JavaScript."""
    return open_page(javascript=False, color_scheme=color_scheme, width=width)


@pytest.fixture
def axe(watch: Watch) -> Callable[..., list[str]]:
    """`axe(page)` lists what axe-core finds wrong with the page as it stands, one line a place."""

    def axe(page: Page, context: str | None = None, options: dict[str, Any] | None = None) -> list[str]:
        assert page.context not in watch.plain, "axe needs a page with JavaScript"
        asked = {"resultTypes": ["violations"]} | (options or {})  # what passes is counted, not written out
        violations = Axe().run(page, context=context, options=asked).response["violations"]
        return [
            f"{violation['id']} ({violation['impact']}): {violation['help']}: "
            f"{' '.join(map(str, node['target']))}: {' '.join(node['failureSummary'].split())}"
            for violation in violations
            for node in violation["nodes"]
        ]

    return axe
