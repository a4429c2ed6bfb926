"""`python -m app`: serve on this machine, and say where once it is ready."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

import uvicorn
from pydantic import ValidationError

from app.settings import Settings

LONGEST_REQUEST = 2**20  # bytes of a request's line and headers: a URL carries the whole text


class Server(uvicorn.Server):
    """Says where it is once it answers."""

    address = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(f"Every Number: {self.address}", flush=True)


def main() -> int:
    """Serve until stopped. Returns what the process exits with."""
    try:
        settings = Settings()
    except ValidationError as error:
        for fault in error.errors():
            name = "_".join(map(str, fault["loc"])).upper()
            print(f"EVERYNUMBER_{name}={fault['input']}: {fault['msg']}", file=sys.stderr)
        return 2
    try:
        listener = listen(settings.host, settings.port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        print(f"Cannot serve on {settings.host} port {settings.port}: {reason}.", file=sys.stderr)
        print(f"Choose another port with EVERYNUMBER_PORT={settings.port % 65535 + 1}.", file=sys.stderr)
        return 1

    from app.main import create_app  # torch takes its time: a taken port is told before
    from model.errors import ReaderError

    try:
        app = create_app(settings)
    except ReaderError as error:
        print(error.message, error.hint, file=sys.stderr)
        return 2
    config = uvicorn.Config(
        app, log_level="warning", h11_max_incomplete_event_size=LONGEST_REQUEST, timeout_graceful_shutdown=3
    )
    server = Server(config)
    host, port = listener.getsockname()[:2]
    server.address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the usual way to stop it
        server.run(sockets=[listener])
    return 0 if server.started else 3


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the first address that the host's name stands for."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=2048)


if __name__ == "__main__":
    sys.exit(main())
