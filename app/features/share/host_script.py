"""The small script for pages that embed this site: where it is, and the hash by which a browser checks it."""

from __future__ import annotations

import base64
import hashlib

from app.render.templating import STATIC
from app.server.prefix import AppPath, Url, rooted

PATH = AppPath("/embed.js")


def content() -> bytes:
    """The file as it is served."""
    return (STATIC / "embed.js").read_bytes()


def version() -> str:
    """A short name of the content, so that a URL that holds it can be kept for long."""
    return hashlib.sha256(content()).hexdigest()[:12]


def integrity() -> str:
    """For the attribute `integrity` (Subresource Integrity, W3C): sha384 in base64."""
    return "sha384-" + base64.b64encode(hashlib.sha384(content()).digest()).decode("ascii")


def url() -> Url:
    """Its rooted path, with its version."""
    return Url(f"{rooted(PATH)}?v={version()}")
