"""`python -m app`: serve on this machine, and say where once it is ready."""

from __future__ import annotations

import os
import socket
import sys

from pydantic import ValidationError

from app.server import logs
from app.settings import AppSettings


def main() -> int:
    """Serve until stopped. Returns what the process exits with."""
    try:
        settings = AppSettings()
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
    from app.server.serving import serve, serve_in_many
    from model.errors import ReaderError

    logs.configure(settings)
    if settings.workers > 1:
        return serve_in_many(settings, listener)
    try:
        app = create_app(settings)
    except ReaderError as error:
        print(error.message, error.hint, file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # while a model was being fetched
        return 130
    return serve(app, settings, listener)


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the first address that the host's name stands for."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=2048)


if __name__ == "__main__":
    sys.exit(main())
