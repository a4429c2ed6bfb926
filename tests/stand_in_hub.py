"""A small model hub on this machine: it speaks as much of the real one's protocol as downloads need, faults included.

    with stand_in_hub(monkeypatch, tmp_path, checkpoint) as hub:
        hub.break_after = 5000            # the line breaks once after so many bytes of a file
        fetch(hub.published)

Files are those of a checkpoint directory. `model.safetensors` is offered as a large file, named by its SHA-256, the
others as small ones, named by git's checksum.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from huggingface_hub import close_session, constants, file_download

from model.loading import EMBEDDED
from model.weights import hub
from model.weights.checkpoints import WEIGHTS, read_config, save_network
from model.weights.hub import Published
from tests.model.models import SHAPES, random_network

REVISION = "0123456789abcdef0123456789abcdef01234567"
PATH = re.compile(r"/(?P<repo>[\w-]+/[\w.-]+)/resolve/(?P<revision>\w+)/(?P<name>[\w.]+)")
PIECE = 16 * 1024


@dataclass
class StandIn:
    """What the hub holds and how it misbehaves. `asked` are its requests: method, file, first byte."""

    directory: Path
    published: Published
    url: str = ""
    cache: Path = Path()
    break_after: int | None = None  # bytes of weights after which the line breaks
    breaks: int = 1  # how often
    content: dict[str, bytes] = field(default_factory=dict)  # what is sent instead of a file
    etags: dict[str, str] = field(default_factory=dict)  # what is offered instead of a file's own checksum
    status: int = 200
    ignores_ranges: bool = False
    seconds_a_piece: float = 0.0
    may_go_on: threading.Event = field(default_factory=threading.Event)
    holds_at: int | None = None  # bytes of weights after which it waits until it may go on
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    def etag(self, name: str) -> str:
        raw = (self.directory / name).read_bytes()
        own = hashlib.sha256(raw) if name == WEIGHTS else hashlib.sha1(b"blob %d\0" % len(raw) + raw)
        return self.etags.get(name, own.hexdigest())

    def weights_asked(self) -> list[int]:
        """The first byte of each request for the weights."""
        return [start for method, name, start in self.asked if method == "GET" and name == WEIGHTS]


@contextmanager
def stand_in_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkpoint: Path | None = None) -> Iterator[StandIn]:
    """Serve the checkpoint as `gpt2`, the only published one, to an empty cache of this test's own."""
    directory = checkpoint or small_checkpoint(tmp_path / "offered")
    sha256 = hashlib.sha256((directory / WEIGHTS).read_bytes()).hexdigest()
    config, size = read_config(directory), (directory / WEIGHTS).stat().st_size
    offered = Published("gpt2", "GPT-2", "openai-community/gpt2", REVISION, config, size, sha256, old_repo="gpt2")
    state = StandIn(directory, offered, cache=tmp_path / "cache")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(state))
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    monkeypatch.setattr(hub, "PUBLISHED", (offered,))
    monkeypatch.setattr(constants, "ENDPOINT", state.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", state.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(state.cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", PIECE)
    monkeypatch.setattr(file_download, "time", Sleepless())  # between two tries of the client
    try:
        yield state
    finally:
        state.may_go_on.set()
        server.shutdown()
        server.server_close()
        close_session()


class Sleepless:
    """The module `time`, but sleep takes none."""

    def __getattr__(self, name: str) -> object:
        return (lambda seconds: None) if name == "sleep" else getattr(time, name)


def small_checkpoint(directory: Path, shape: str = "wide") -> Path:
    """A random network of some hundred thousand weights with the embedded model's vocabulary."""
    config, scale = SHAPES[shape]
    net = random_network(config, scale)
    save_network(directory, net, start_id=0)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(EMBEDDED / name, directory)
    return directory


def handler(state: StandIn) -> type[BaseHTTPRequestHandler]:
    """Answers of the hub that `state` describes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            asked = PATH.fullmatch(unquote(self.path.partition("?")[0]))
            name = asked["name"] if asked else ""
            span = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(span[1]) if span and not state.ignores_ranges else 0
            state.asked.append((self.command, name, start))
            path = state.directory / name
            if asked is None or asked["revision"] != REVISION or not path.is_file():
                self.refuse(404, "EntryNotFound")
            elif state.status != 200:
                self.refuse(state.status, "")
            else:
                self.send(name, state.content.get(name) or path.read_bytes(), start)

        def refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.send_header("X-Repo-Commit", REVISION)
            if code:
                self.send_header("X-Error-Code", code)
            self.end_headers()

        def send(self, name: str, body: bytes, start: int) -> None:
            self.send_response(206 if start else 200)
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("ETag", f'"{state.etag(name)}"')
            self.send_header("Content-Length", str(len(body) - start))
            if name == WEIGHTS:
                self.send_header("X-Linked-Etag", f'"{state.etag(name)}"')
                self.send_header("X-Linked-Size", str(len(body)))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.end_headers()
            if self.command == "HEAD":
                return
            for at in range(start, len(body), PIECE):
                if name == WEIGHTS and state.holds_at is not None and at >= state.holds_at:
                    state.may_go_on.wait(30)
                if name == WEIGHTS and state.break_after is not None and at >= state.break_after and state.breaks > 0:
                    state.breaks -= 1
                    self.close_connection = True
                    return
                self.wfile.write(body[at : at + PIECE])
                time.sleep(state.seconds_a_piece)

    return Handler
