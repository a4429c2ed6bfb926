"""Where links lead: the pages by their paths, and URLs with parameters."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from urllib.parse import quote, urlencode

from app.server.prefix import AppPath, Url, rooted

Pairs = tuple[tuple[str, str], ...]  # parameters of a URL

HOME, EXPLORE, SHARE = AppPath("/"), AppPath("/explore"), AppPath("/share")
LEARN, WHATIF, GENERATE = AppPath("/learn"), AppPath("/whatif"), AppPath("/generate")
EMBED = "/embed/"

PACKABLE = (EXPLORE, WHATIF, LEARN)  # pages that may have their text in the path: see app.request.long_text

SAFE = "[],:()*/~"

# The text that the path of the page asked for holds already: see long_text. Links that stay there leave it out.
PACKED_TEXT: ContextVar[str | None] = ContextVar("packed_text", default=None)


def encoded(pairs: Iterable[tuple[str, str]]) -> str:
    """Parameters as the query of a URL."""
    return urlencode(list(pairs), safe=SAFE, quote_via=quote)


def link(path: AppPath, pairs: Iterable[tuple[str, str]]) -> Url:
    """A path with parameters. Not escaped: templates do that."""
    query = encoded(pairs)
    return Url(f"{rooted(path)}?{query}" if query else rooted(path))


def share_url(url: Url) -> Url:
    """The page that helps to share a page."""
    return link(SHARE, [("url", url)])
