"""Long texts in a page's path: `/~PACKED/explore?at=…` is `/explore?text=…&at=…`.

A page of the explorer has hundreds of links. With a long text in each it would be megabytes; with the text packed into
the path, links that stay on the page leave it out, and a browser adds it. The URL still is the whole state.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from urllib.parse import parse_qs, quote

from starlette.types import Scope

from app.request.paths import PACKABLE, SAFE
from app.request.state import State
from app.server.prefix import AppPath, Url, rooted

LONG = 1500  # characters of a text, as a URL quotes it, from which on it is packed
MOST = 2**20  # bytes that a packed text may have

PACKED = re.compile(rf"/~([A-Za-z0-9_-]+)({'|'.join(PACKABLE)}|/api/v1/(?:run|values|explain)|/export/[a-z.]+)")


def packed(text: str) -> str:
    """A text in letters, digits, - and _."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def unpacked(packed: str) -> str | None:
    """The text again; None where it is none that `packed` made, or too long."""
    try:
        data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        inflate = zlib.decompressobj()
        raw = inflate.decompress(data, MOST)
        return raw.decode() if inflate.eof else None
    except (zlib.error, binascii.Error, UnicodeDecodeError):
        return None


def in_full(scope: Scope) -> Scope:
    """A request with its text packed in the path as the same one with the text among the parameters.

    `scope["packed_text"]` is that text.
    """
    root, path = scope.get("root_path", ""), scope["path"]
    found = PACKED.fullmatch(path.removeprefix(root))
    text = unpacked(found[1]) if found else None
    if found is None or text is None or "text" in parse_qs(scope["query_string"].decode("latin-1")):
        return scope
    path = (root if path.startswith(root) else "") + found[2]
    query = b"&".join(filter(None, (b"text=" + quote(text, safe="").encode(), scope["query_string"])))
    return {**scope, "path": path, "raw_path": path.encode(), "query_string": query, "packed_text": text}


def shorter(state: State, packed_text: str | None) -> Url | None:
    """Where the explorer's page for a long text is to be asked for, if not here: with its text in the path."""
    if packed_text == state.text or len(quote(state.text, safe=SAFE)) < LONG:
        return None
    return Url(f"{rooted(AppPath(f'/~{packed(state.text)}{state.page}'))}?{state.query('text')}")
