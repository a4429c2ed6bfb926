"""The path under which the app is served: its own paths as a browser asks for them, and back."""

from __future__ import annotations

from contextvars import ContextVar

from starlette.requests import Request

# The path under which the app is served, such as "/every-number"; "" at the root of a host. Set anew for each request
# (app.main.App), so that several apps with different prefixes can live in one process.
ROOT: ContextVar[str] = ContextVar("root", default="")


def rooted(path: str) -> str:
    """A path of the app (“/explore?…”) as a browser must ask for it. A URL is rooted once, where it is written."""
    return ROOT.get() + path


def path_of(request: Request) -> str:
    """The path that was asked for, without the prefix: what the app's own routes are called."""
    path = request.url.path
    root = ROOT.get()
    return path.removeprefix(root) or "/" if path == root or path.startswith(f"{root}/") else path


def absolute(request: Request, path: str) -> str:
    """A path of the app as a full address, for what is read elsewhere: embeds, cards, shared links.

    `path` is rooted already, as every URL that `State.url` and the others give. The host is EVERYNUMBER_PUBLIC_URL's
    where that is set; else the one that was asked, as told by trusted proxies (app.server.proxy).
    """
    public: str = request.app.state.services.settings.public_url
    return (public or f"{request.url.scheme}://{request.url.netloc}") + path
