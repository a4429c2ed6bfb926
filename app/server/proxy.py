"""What stands in front of the app: the prefix it is shown under, and what trusted proxies say about a request."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import Scope

from app.settings import AppSettings

HOST = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")


def seen_from_outside(scope: Scope, settings: AppSettings) -> Scope:
    """The request as the reader sent it: with the prefix in its path, from their own address, to the public host.

    A proxy may take the prefix off or leave it on; from here on it is there, as ASGI has it. A request without it
    (a health check that asks the app directly) is taken as one whose prefix was taken off.
    """
    root = settings.root_path or scope.get("root_path", "").rstrip("/")
    path = scope["path"]
    if root and path != root and not path.startswith(f"{root}/"):
        path = root + path
    return {**scope, "root_path": root, "path": path, **told_by_proxies(scope, settings.trusted_hops)}


def told_by_proxies(scope: Scope, hops: int) -> dict[str, object]:
    """Client, scheme and host as `hops` proxies have noted them in X-Forwarded-…; nothing where none is trusted.

    Each proxy appends whom it heard from, so the entry that the outermost trusted proxy wrote is the `hops`-th from the
    right; what stands further left came with the request and may be invented.
    """
    if not hops:
        return {}
    headers = Headers(scope=scope)
    told: dict[str, object] = {}
    if client := _nth_from_right(headers.getlist("x-forwarded-for"), hops):
        told["client"] = (client, 0)
    if (scheme := _nth_from_right(headers.getlist("x-forwarded-proto"), hops).lower()) in ("http", "https"):
        told["scheme"] = scheme
    if HOST.fullmatch(host := _nth_from_right(headers.getlist("x-forwarded-host"), hops)):
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        told["headers"] = [*others, (b"host", host.encode("ascii"))]
    return told


def _nth_from_right(lines: list[str], n: int) -> str:
    """The entry of a comma-separated header; where fewer proxies have written, the leftmost."""
    entries = [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]
    return entries[-min(n, len(entries))] if entries else ""
