"""Who may do what costs the host something: whoever sits at this machine, or has the host's token."""

from __future__ import annotations

import secrets
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

from app.settings import AppSettings

# A proxy says by one of these that the request came from elsewhere.
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def may_fetch(request: Request, settings: AppSettings, token: str = "") -> bool:
    """Whether this request may fetch a model, as EVERYNUMBER_DOWNLOADS says."""
    if settings.downloads == "off" or not is_own_page(request):
        return False
    return has_token(settings, token) or (settings.downloads == "local" and is_local(request, settings))


def has_token(settings: AppSettings, token: str) -> bool:
    """Whether the token is the host's; without one set, none is."""
    wanted = settings.admin_token.get_secret_value()
    return bool(wanted) and secrets.compare_digest(wanted.encode(), token.encode())


def is_local(request: Request, settings: AppSettings) -> bool:
    """Whether the request comes from this machine and from no proxy on it, and asks for it by a name of this machine.

    The name keeps out pages of other hosts whose name was made to lead here.
    """
    if settings.trusted_hops or any(name in request.headers for name in FORWARDED):
        return False
    return is_loopback(request.client.host if request.client else "") and is_loopback(request.url.hostname or "")


def is_loopback(host: str) -> bool:
    """127.0.0.1 and the like."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_own_page(request: Request) -> bool:
    """Whether a form was sent by a page of this app: browsers say which page's host sent it."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    try:
        return urlsplit(origin).netloc == request.url.netloc
    except ValueError:  # no address at all
        return False
