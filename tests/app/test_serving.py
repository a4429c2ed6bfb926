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
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

Serve = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def serve(root: Path, tmp_path: Path) -> Iterator[Serve]:
    """`serve(WORKERS=2)` starts the app with these settings and gives its process and address."""
    running: list[subprocess.Popen[str]] = []

    def start(*command: str, **settings: object) -> tuple[subprocess.Popen[str], str]:
        chosen = {f"EVERYNUMBER_{name}": str(value) for name, value in ({"MODEL": "toy", "PORT": 0} | settings).items()}
        log = (tmp_path / "log").open("w")
        process = subprocess.Popen(
            [sys.executable, *(command or ("-m", "app"))], cwd=root, env={**os.environ, **chosen}, text=True,
            stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        running.append(process)
        if command:
            return process, ""
        assert process.stdout is not None
        said = re.fullmatch(r"Every Number: (http://127\.0\.0\.1:\d+)/\n", process.stdout.readline())
        assert said, (tmp_path / "log").read_text()
        return process, said[1]

    yield start
    for process in running:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


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
    with pytest.raises(OSError):
        get(f"{address}/healthz")


def test_jobs_are_called_off_when_it_stops(serve: Serve):
    process, address = serve(MODEL="embedded")
    body = json.dumps({"text": "Once upon a time, there was a little girl. " * 2, "steps": 50}).encode()
    for n in range(4):
        asked = Request(f"{address}/api/v1/jobs", body.replace(b"little", b"little " + b"old " * n), method="POST")
        asked.add_header("Content-Type", "application/json")
        with urlopen(asked, timeout=60) as answer:
            assert answer.status == 202
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    assert time.monotonic() - began < 15, "it waited for the jobs"


# -- clients that stall


def test_a_head_or_a_body_that_does_not_come_is_not_waited_for(serve: Serve):
    _, address = serve(CLIENT_SECONDS=1)
    began = time.monotonic()
    silent, halting, bodiless = connect(address), connect(address), connect(address)
    halting.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow:")
    bodiless.sendall(
        b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
    )
    assert "ok" in get(f"{address}/healthz")
    assert received(silent) == b"" and received(halting) == b""
    assert received(bodiless).startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began < 15


def test_a_client_that_takes_nothing_of_its_answer_is_let_go(serve: Serve):
    _, address = serve(MODEL="embedded", CLIENT_SECONDS=1)
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    parts = urlsplit(address)
    stalled.connect((parts.hostname, parts.port))
    stalled.settimeout(30)
    stalled.sendall(b"GET /api/v1/values?at=W_E&format=npy HTTP/1.1\r\nHost: x\r\n\r\n")  # more than the buffers hold
    time.sleep(4)
    got = received(stalled)
    whole = len(get_bytes(f"{address}/api/v1/values?at=W_E&format=npy"))
    assert 0 < len(got) < whole


def get_bytes(url: str) -> bytes:
    with urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def test_a_body_too_large_is_refused_before_it_is_read(serve: Serve):
    _, address = serve(MAX_BODY_KB=1)
    for declared in (
        b"Content-Length: 5000000\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"800\r\n" + b"x" * 2048 + b"\r\n",
    ):
        connection = connect(address)
        connection.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + declared)
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 413 ") and b"1 kB" in answer


def test_a_head_too_large_and_nonsense_are_answered(serve: Serve):
    _, address = serve()
    for head in (b"GET /?" + b"x" * 2**21 + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01 nonsense\r\n\r\n"):
        connection = connect(address)
        try:
            connection.sendall(head)
            assert received(connection).startswith(b"HTTP/1.1 400 ")
        except (BrokenPipeError, ConnectionResetError):
            pass  # it closed before all was sent
    assert "ok" in get(f"{address}/healthz")


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


def test_a_job_that_nobody_knows_any_more_needs_its_inputs(serve: Serve):
    _, address = serve()
    body = json.dumps({"text": "the cat sat on the", "steps": 2}).encode()
    asked = Request(f"{address}/api/v1/jobs", body, {"Content-Type": "application/json"}, method="POST")
    with urlopen(asked, timeout=60) as answer:
        job = json.loads(answer.read())
    _, other = serve()
    with pytest.raises(HTTPError, match="404"):
        get(f"{other}/api/v1/jobs/{job['id']}")
    with pytest.raises(HTTPError, match="404"):
        get(other + job["url"].replace("the%20cat", "the%20dog"))  # other inputs than the id's
    deadline = time.monotonic() + 30
    while (found := json.loads(get(other + job["url"])))["state"] != "done" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found["result"]["losses"][0] > found["result"]["losses"][-1]


def test_plain_uvicorn_serves_with_workers_and_no_line_with_a_sentence(serve: Serve, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process, _ = serve(
        "-m", "uvicorn", "--factory", "app.main:create_app", "--workers", "2", "--port", str(port), LOG="json",
        LOG_LEVEL="info",
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            if "ok" in get(f"http://127.0.0.1:{port}/healthz"):
                break
        except OSError:
            time.sleep(0.3)
    numbers = {get(f"http://127.0.0.1:{port}/api/v1/values?text=the%20dog&at=logits[2,:]") for _ in range(6)}
    assert len(numbers) == 1
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    logged = (tmp_path / "log").read_text()
    assert "the%20dog" not in logged and "the dog" not in logged and '"path": "/api/v1/values"' in logged
