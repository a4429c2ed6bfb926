"""Headers on every answer: nothing from other hosts, no inline script or style, no guessing of types."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.prefix import path_of

SELF = "frame-ancestors 'self'"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    f"frame-src 'self'; form-action 'self'; base-uri 'none'; {SELF}"
)

FRAMED = "/embed/"  # other sites may frame the pages below this

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """Adds HEADERS to every answer that does not set its own; embeds may be framed by those who may frame them."""

    def __init__(self, app: ASGIApp, frame_ancestors: str = "'self'") -> None:
        self.app = app
        names = frame_ancestors.split()
        if not {"'self'", "'none'", "*"} & set(names):
            names.insert(0, "'self'")  # for the preview of what is shared
        self.framed = {"Content-Security-Policy": POLICY.replace(SELF, f"frame-ancestors {' '.join(names)}")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers_here = HEADERS | (self.framed if path_of(Request(scope)).startswith(FRAMED) else {})

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in headers_here.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
