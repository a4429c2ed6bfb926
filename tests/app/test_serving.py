"""The server itself: how it stops, clients that stall, and several processes that answer for each other."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings

POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

Serve = Callable[..., tuple[subprocess.Popen[str], str]]


def started(root: Path, log: Path, *command: str, **settings: object) -> subprocess.Popen[str]:
    """The app in a process of its own, with these settings."""
    chosen = {f"EVERYNUMBER_{name}": str(value) for name, value in ({"MODEL": "toy", "PORT": 0} | settings).items()}
    return subprocess.Popen(
        [sys.executable, *(command or ("-m", "app"))], cwd=root, env={**os.environ, **chosen}, text=True,
        stdout=subprocess.PIPE, stderr=log.open("w"),
    )  # fmt: skip


def address_of(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    said = re.fullmatch(r"Every Number: (http://127\.0\.0\.1:\d+)/\n", process.stdout.readline())
    assert said, log.read_text()
    return said[1]


def ended(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture
def serve(root: Path, tmp_path: Path) -> Iterator[Serve]:
    """`serve(WORKERS=2)` starts the app with these settings and gives its process and address."""
    running: list[subprocess.Popen[str]] = []

    def start(**settings: object) -> tuple[subprocess.Popen[str], str]:
        running.append(started(root, tmp_path / "log", **settings))
        return running[-1], address_of(running[-1], tmp_path / "log")

    yield start
    for process in running:
        ended(process)


@pytest.fixture(scope="module")
def strict(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with little patience."""
    log = tmp_path_factory.mktemp("strict") / "log"
    process = started(root, log, MODEL="embedded", CLIENT_SECONDS=1, MAX_BODY_KB=1)
    yield address_of(process, log)
    ended(process)


def get(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    assert parts.hostname and parts.port
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def received(connection: socket.socket) -> bytes:
    """All until the server closes."""
    found = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not piece:
            return found
        found += piece


# -- stopping


def test_a_stopped_server_finishes_what_it_answers_and_ends_well(serve: Serve):
    process, address = serve(MODEL="embedded", GENERATE_SECONDS=2, STOP_SECONDS=20)
    answers: list[str] = []
    url = f"{address}/api/v1/generate?n=60&seed=1&temperature=1"
    reader = threading.Thread(target=lambda: answers.append(get(url)))
    reader.start()
    time.sleep(0.7)  # it is being answered
    process.send_signal(signal.SIGTERM)
    reader.join(timeout=60)
    assert process.wait(timeout=60) == 0
    assert json.loads(answers[0])["tokens"]
    assert process.stdout is not None and "Every Number has stopped.\n" in process.stdout.readlines()
    with pytest.raises(OSError):
        get(f"{address}/healthz")


def test_it_ends_well_where_nobody_reads_its_last_line(serve: Serve):
    process, _ = serve()
    assert process.stdout is not None
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def test_jobs_are_called_off_when_it_stops(serve: Serve):
    process, address = serve(MODEL="embedded")
    text, ids = "Once upon a time, there was a little girl. " * 2, []
    for n in range(4):
        body = json.dumps({"text": text.replace("little", "little" + " old" * n), "steps": 50}).encode()
        asked = Request(f"{address}/api/v1/jobs", body, {"Content-Type": "application/json"}, method="POST")
        with urlopen(asked, timeout=60) as answer:
            assert answer.status == 202
            ids.append(json.loads(answer.read())["id"])
    told: list[str] = []
    listener = threading.Thread(target=lambda: told.append(get(f"{address}/api/v1/jobs/{ids[-1]}/events")))
    listener.start()
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    listener.join(timeout=10)
    assert told[0].rstrip().splitlines()[-2] == "event: cancelled"  # not done: nobody waited for it


# -- clients that stall


def test_a_head_or_a_body_that_does_not_come_is_not_waited_for(strict: str):
    began = time.monotonic()
    silent, halting, bodiless = connect(strict), connect(strict), connect(strict)
    halting.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow:")
    bodiless.sendall(POST + b"Content-Length: 20\r\n\r\n{")
    assert "ok" in get(f"{strict}/healthz")
    assert received(silent) == b"" and received(halting) == b""
    assert received(bodiless).startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began < 15


def test_a_client_that_takes_nothing_of_its_answer_is_let_go(strict: str):
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    parts = urlsplit(strict)
    stalled.connect((parts.hostname, parts.port))
    stalled.settimeout(30)
    path = "/api/v1/values?at=W_E&format=npy"
    asked = 12  # together more than the buffers of both sides hold
    stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * asked)
    time.sleep(4)
    assert 0 < len(received(stalled)) < asked * len(get_bytes(strict + path))


def get_bytes(url: str) -> bytes:
    with urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def test_a_body_too_large_is_refused_before_it_is_read(strict: str):
    chunk = b"800\r\n" + b"x" * 2048 + b"\r\n"
    for declared in (b"Content-Length: 5000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n" + chunk):
        connection = connect(strict)
        connection.sendall(POST + declared)
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 413 ") and b"1 kB" in answer


def test_a_head_too_large_and_nonsense_are_answered(strict: str):
    for head in (b"GET /?" + b"x" * 2**21 + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01 nonsense\r\n\r\n"):
        connection = connect(strict)
        try:
            connection.sendall(head)
            assert received(connection).startswith(b"HTTP/1.1 400 ")
        except (BrokenPipeError, ConnectionResetError):
            pass  # it closed before all was sent
    assert "ok" in get(f"{strict}/healthz")


# -- several processes


def workers(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list a process's children")
    lines = [(int(pid), Path(f"/proc/{pid}/cmdline").read_bytes()) for pid in children.read_text().split()]
    return [pid for pid, line in lines if b"spawn_main" in line]


def test_two_workers_answer_for_each_other(serve: Serve):
    process, address = serve(WORKERS=2, MODEL="toy")
    deadline = time.monotonic() + 60
    while len(workers(process)) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(workers(process)) == 2

    # A walk: every click is a connection of its own, which either worker may take; each step was seen the same before.
    walk = ["loss", "probs[5,6]", "logits[5,6]", "blocks.0.attn.pattern[0,5,2]", "loss.grad", "logits[5,6].grad"]
    for at in walk:
        asked = f"{address}/api/v1/explain?text=the%20cat%20sat%20on%20the&at={at}"
        assert len({get(asked) for _ in range(6)}) == 1, at

    # A job begun on one, asked for on any: it comes to its end, and to the same numbers.
    body = json.dumps({"text": "the cat sat on the", "steps": 3}).encode()
    asked = Request(f"{address}/api/v1/jobs", body, {"Content-Type": "application/json"}, method="POST")
    with urlopen(asked, timeout=60) as answer:
        job = json.loads(answer.read())
    results = []
    for _ in range(60):
        found = json.loads(get(address + job["url"]))
        assert found["id"] == job["id"] and found["state"] in ("waiting", "running", "done")
        if found["state"] == "done":
            results.append(json.dumps(found["result"]))
        time.sleep(0.02)
    assert len(results) > 20 and len(set(results)) == 1

    # One that dies is replaced, and meanwhile the other answers.
    os.kill(workers(process)[0], signal.SIGKILL)
    for _ in range(20):
        try:
            assert "the" in get(f"{address}/explore?text=the%20cat%20sat%20on%20the")
        except (ConnectionError, OSError):
            time.sleep(0.2)  # what it was just answering is lost
    deadline = time.monotonic() + 60
    while len(workers(process)) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(workers(process)) == 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def test_a_job_that_nobody_knows_any_more_needs_its_inputs():
    one, other = (TestClient(create_app(AppSettings(model="toy"))) for _ in range(2))
    job = one.post("/api/v1/jobs", json={"text": "the cat sat on the", "steps": 2}).json()
    assert other.get(f"/api/v1/jobs/{job['id']}").status_code == 404
    assert other.get(job["url"].replace("the%20cat", "the%20dog")).status_code == 404  # other inputs than the id's
    deadline = time.monotonic() + 30
    while (found := other.get(job["url"]).json())["state"] != "done" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found["result"]["losses"][0] > found["result"]["losses"][-1]


def test_plain_uvicorn_serves_with_workers_and_no_line_with_a_sentence(root: Path, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = ("-m", "uvicorn", "--factory", "app.main:create_app", "--workers", "2", "--port", str(port))
    process = started(root, tmp_path / "log", *command, LOG="json", LOG_LEVEL="info")
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            if "ok" in get(f"http://127.0.0.1:{port}/healthz"):
                break
        except OSError:
            time.sleep(0.3)
    numbers = {get(f"http://127.0.0.1:{port}/api/v1/values?text=the%20dog&at=logits[2,:]") for _ in range(6)}
    ended(process)
    assert len(numbers) == 1
    logged = (tmp_path / "log").read_text()
    assert "the%20dog" not in logged and "the dog" not in logged and '"path": "/api/v1/values"' in logged
