"""How much one client may ask: all requests within a rate, and those that make the server compute within a tighter one.

Counted in this process alone, over a moving window. Behind a proxy a client is whoever the trusted proxies name
(app.server.proxy). A class behind one address counts as one client, so the usual rates leave room for one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network

from fastapi import Request
from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.server.prefix import path_of
from app.settings import AppSettings

FREE = ("/static/", "/healthz", "/readyz", "/metrics")  # cost next to nothing, and are asked by machines
FILES = ("csv", "npy")  # formats of downloads
MOST_CLIENTS = 50_000  # that are remembered; with more, all begin anew, so that nobody fills the memory with addresses
SITE = 64  # bits that a network leaves to one site: an IPv6 client picks any address within

# Who asks, for work done on the way of their request, and what counts that work; unset outside of requests.
CLIENT: ContextVar[str] = ContextVar("client", default="")
_SPEND: ContextVar[Callable[[], None] | None] = ContextVar("spend", default=None)


class TooMany(Exception):
    """More than one client may ask. `seconds` until there is room again."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = max(math.ceil(seconds), 1)


def client_of(scope: Scope) -> str:
    """The client that a request counts for: its address, of IPv6 the network of its site; "" where there is none."""
    host = scope["client"][0] if scope.get("client") else ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return str(host)[:100]
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, SITE), strict=False))


def spend() -> None:
    """Count one piece of computing (a new run, tokens being made) for whoever asks. Raises TooMany."""
    if count := _SPEND.get():
        count()


class Rates:
    """The rates of the settings, and what each client has used of them."""

    def __init__(self, settings: AppSettings) -> None:
        self._all = parse(settings.rate) if settings.rate else None
        self._costly = parse(settings.rate_costly) if settings.rate_costly else None
        self._memory = MemoryStorage()
        self._used = MovingWindowRateLimiter(self._memory)

    def ask(self, client: str) -> None:
        """Count one request. Raises TooMany."""
        self._count(self._all, "all", client, "Too many requests from this address.")

    def ask_costly(self, client: str) -> None:
        """Count one that makes the server compute. Raises TooMany."""
        self._count(self._costly, "costly", client, "Too much computing for this address.")

    def _count(self, limit: RateLimitItem | None, kind: str, client: str, message: str) -> None:
        if len(self._memory.events) > MOST_CLIENTS:
            self._memory.reset()
        if limit and not self._used.hit(limit, kind, client):
            raise TooMany(message, self._used.get_window_stats(limit, kind, client).reset_time - time.time())


class Limits:
    """Refuses the requests of a client that asks too much: as a page, or as JSON for the API, with Retry-After."""

    def __init__(self, app: ASGIApp, rates: Rates, refuse: Callable[[Request, Exception], Response]) -> None:
        self.app, self.rates, self.refuse = app, rates, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (path := path_of(request := Request(scope))).startswith(FREE):
            await self.app(scope, receive, send)
            return
        client = client_of(scope)
        try:
            self.rates.ask(client)
            if is_costly(scope["method"], path, request.query_params):
                self.rates.ask_costly(client)
        except TooMany as error:
            await self.refuse(request, error)(scope, receive, send)
            return
        CLIENT.set(client)  # each request has a context of its own
        _SPEND.set(partial(self.rates.ask_costly, client))
        await self.app(scope, receive, send)


def is_costly(method: str, path: str, query: QueryParams) -> bool:
    """Whether a request computes by its nature: it starts something, or it asks for a file.

    A run that is not in memory is counted where it is begun (`spend`): a URL does not show that.
    """
    return method not in ("GET", "HEAD", "OPTIONS") or query.get("format") in FILES or path.startswith("/export")
