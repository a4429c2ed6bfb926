"""How the app is served: uvicorn as the settings say, patient with readers but not with clients that stall."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from app.settings import AppSettings

LONGEST_HEAD = 2**20  # bytes of a request's line and headers: a URL carries the whole text
USUAL_SECONDS = 60.0  # for a client that stalls, where uvicorn was not configured here
WORKER_SECONDS = 60  # within which a worker must say that it lives; a busy one may take its time
OTHER_FILES = 200  # that a process has open besides connections
FAILED = 3


class PatientProtocol(H11Protocol):
    """Closes a connection whose request's head does not come in time, or whose client takes nothing of the answer.

    uvicorn itself only closes connections that idle after an answer. (`uvicorn --http …:PatientProtocol`)
    """

    def __init__(self, config: uvicorn.Config, *given: Any, **named: Any) -> None:
        super().__init__(config, *given, **named)
        self.seconds: float = getattr(config, "client_seconds", USUAL_SECONDS)
        self._head: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = self.loop.call_later(self.seconds, self._give_up_on_head)

    def data_received(self, data: bytes) -> None:
        if self.cycle is not None and self.cycle.response_complete and self._head is None:
            self._head = self.loop.call_later(self.seconds, self._give_up_on_head)  # the next request has begun
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking = self._taking or self.loop.call_later(self.seconds, self._give_up_on_answer)

    def resume_writing(self) -> None:
        self._stop_waiting_for_taking()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting_for_head()
        self._stop_waiting_for_taking()
        super().connection_lost(exc)

    def _stop_waiting_for_head(self) -> None:
        if self._head:
            self._head.cancel()
            self._head = None

    def _stop_waiting_for_taking(self) -> None:
        if self._taking:
            self._taking.cancel()
            self._taking = None

    def _give_up_on_head(self) -> None:
        self._head = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _give_up_on_answer(self) -> None:
        self._taking = None
        self.transport.abort()  # what is buffered will not be taken either


class Server(uvicorn.Server):
    """Says where it is once it answers, and lets the app know when it stops: before it waits for running requests."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            announce(sockets[0])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_stop()
        await super().shutdown(sockets)


def serve(app: FastAPI, settings: AppSettings, listener: socket.socket) -> int:
    """Serve in this process until stopped. Returns what the process exits with."""
    server = Server(Config(app, settings), app.state.services.jobs.close)  # some requests wait for jobs
    # uvicorn stops gracefully on SIGTERM and then raises it again, which would end the process as if it had failed.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    allow_connections(settings.max_connections)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the usual way to stop it
        server.run(sockets=[listener])
    if server.started:
        with contextlib.suppress(OSError):  # whoever read this may have gone first
            print("Every Number has stopped.", flush=True)
    return 0 if server.started else FAILED


def serve_in_many(settings: AppSettings, listener: socket.socket) -> int:
    """Serve in several processes that share one socket, each with models and runs of its own."""
    config = Config("app.main:create_app", settings, factory=True, workers=settings.workers)
    allow_connections(settings.max_connections)  # workers inherit it
    parent = Multiprocess(config, sockets=[listener])  # it handles signals itself
    threading.Thread(target=_announce_first, args=(parent, listener), daemon=True).start()
    parent.run()
    return 0 if all(process.exitcode != STARTUP_FAILURE for process in parent.processes) else FAILED


def _announce_first(parent: Multiprocess, listener: socket.socket) -> None:
    """Say where it is once a worker answers. (The parent alone may ask its workers how they are.)"""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    while not parent.should_exit.wait(0.2):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=5) as connection:
            connection.settimeout(30)
            connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if connection.recv(64).startswith(b"HTTP/1.1 200"):
                announce(listener)
                return


def announce(listener: socket.socket) -> None:
    """Say where the app is served."""
    host, port = listener.getsockname()[:2]
    print(f"Every Number: http://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)


def allow_connections(n: int) -> None:
    """Let this process open as many files as so many connections take, where the system allows it."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = n + OTHER_FILES if hard == resource.RLIM_INFINITY else min(n + OTHER_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Config(uvicorn.Config):
    """uvicorn's settings. Who asks and for which host is read by proxy.py; logs are written by logs.py."""

    def __init__(self, app: ASGIApp | str, settings: AppSettings, **more: Any) -> None:
        super().__init__(
            app,
            http=PatientProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            limit_concurrency=settings.max_connections or None,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.stop_seconds,
            timeout_worker_healthcheck=WORKER_SECONDS,
            **more,
        )
        self.client_seconds = settings.client_seconds
