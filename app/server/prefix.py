"""Paths of the app and URLs of a browser, told apart by their types, so that no path is written bare into a link.

An `AppPath` ("/explore") is what the app's own routes are called. A `Url` ("/every-number/explore?…") is what a browser
asks for: the prefix under which the app is served stands in front. Only `rooted` makes the one of the other.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import NewType

from starlette.requests import Request

AppPath = NewType("AppPath", str)
Url = NewType("Url", str)

# The path under which the app is served, such as "/every-number"; "" at the root of a host. Set anew for each request
# (app.main.App), so that several apps with different prefixes can live in one process.
ROOT: ContextVar[str] = ContextVar("root", default="")


def rooted(path: AppPath) -> Url:
    """What a browser must ask for to get a path of the app."""
    return Url(ROOT.get() + path)


def path_of(request: Request) -> AppPath:
    """The path that was asked for, without the prefix."""
    path, root = request.url.path, ROOT.get()
    return AppPath(path.removeprefix(root) or "/" if path == root or path.startswith(f"{root}/") else path)


def origin_of(request: Request) -> str:
    """This site's scheme and host, for what is read elsewhere: embeds, cards, shared links.

    The host is EVERYNUMBER_PUBLIC_URL's where that is set; else the one that was asked, as told by trusted proxies
    (app.server.proxy).
    """
    public: str = request.app.state.services.settings.public_url
    return public or f"{request.url.scheme}://{request.url.netloc}"
