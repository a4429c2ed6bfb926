"""The whole context of GPT-2 small's shape, explored over HTTP: times, page sizes and peak memory of the server.

`python -m benchmarks.long_text` writes a checkpoint with random weights to a temporary directory, starts the real
server on it, runs a text of 1,024 tokens and opens every kind of site, values and slopes, in pages and by the API.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import torch

from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.arch.graph import Graph
from model.loading import EMBEDDED
from model.weights.checkpoints import save_network

GPT2_SMALL = GPT2Config(n_layer=12, n_head=12, d_model=768, d_mlp=3072, d_vocab=50257, n_ctx=1024)
MOST_MEMORY = 2500  # MB
MOST_PAGE, MOST_PANEL = 120, 40  # kB
RANDOM = 1000  # addresses explained
PATIENCE = 300  # seconds for one answer
PANEL = {"HX-Request": "true", "HX-Target": "why"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_text")
    parser.add_argument("--port", type=int, default=8229)
    parser.add_argument("--tokens", type=int, default=GPT2_SMALL.n_ctx, help="length of the text (1024)")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the server is stopped, too
    with tempfile.TemporaryDirectory() as scratch:
        directory = checkpoint(Path(scratch) / "gpt2-random")
        with server(directory, chosen.port) as process:
            visit(Reader(chosen.port, process.pid, text(chosen.tokens)), chosen.tokens)


def checkpoint(directory: Path) -> Path:
    """Random weights of GPT-2 small's shape, and the embedded model's tokenizer."""
    net = GPT2(GPT2_SMALL)
    net.init_weights(torch.Generator().manual_seed(0))
    save_network(directory, net, start_id=0)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(EMBEDDED / name, directory)
    return directory


def text(n: int) -> str:
    """`n` tokens, the start token counted."""
    n_vocab = len(json.loads((EMBEDDED / "vocab.json").read_text("utf-8")))
    drawn = Random(0)
    return "ids:" + ",".join(str(drawn.randrange(1, n_vocab)) for _ in range(n - 1))


@contextmanager
def server(directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The real server with its usual settings."""
    settings = {"EVERYNUMBER_MODEL": str(directory), "EVERYNUMBER_PORT": str(port), "EVERYNUMBER_HOST": "127.0.0.1"}
    settings |= {"EVERYNUMBER_RATE": "", "EVERYNUMBER_RATE_COSTLY": ""}  # one impatient reader
    process = subprocess.Popen([sys.executable, "-m", "app"], env=os.environ | settings)
    try:
        for _ in range(600):
            try:
                urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
                break
            except OSError:
                time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait(30)


class Reader:
    """Asks the server, one question after the other, about one text."""

    def __init__(self, port: int, pid: int, text: str) -> None:
        self.port, self.pid, self.text = port, pid, text

    def ask(self, path: str, headers: dict[str, str] | None = None, **query: str) -> tuple[float, int]:
        """Seconds and kB of an answer."""
        started = time.perf_counter()
        size = len(self.read(path, headers, **query))
        return time.perf_counter() - started, size // 1000

    def read(self, path: str, headers: dict[str, str] | None = None, **query: str) -> bytes:
        """An answer; an error ends the program."""
        url = f"http://127.0.0.1:{self.port}{path}?{urlencode({'text': self.text} | query)}"
        try:
            with urlopen(Request(url, headers=headers or {}), timeout=PATIENCE) as answer:
                found: bytes = answer.read()
                return found
        except HTTPError as error:
            raise SystemExit(f"{path} {query}: {error.code} {error.read()[:600]!r}") from None

    @property
    def peak(self) -> int:
        """The most memory that the server has had so far, in MB."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 // 10**6


def visit(reader: Reader, n: int) -> None:
    """All kinds of sites at random places, printed as a table."""
    print(f"loaded: peak {reader.peak:,} MB")
    seconds, size = reader.ask("/api/v1/run")
    print(f"first run of {n:,} tokens: {seconds:.1f} s, {size} kB; peak {reader.peak:,} MB")
    drawn, graph = Random(1), Graph(GPT2_SMALL)
    pages: list[int] = []
    panels: list[int] = []
    rows = []
    for quantity in ("", "grad"):
        for node in graph:
            if node.block not in (None, 0, 7) or (quantity and node.name == "tokens"):
                continue
            place = ",".join(str(drawn.randrange(size)) for size in graph.shape(node.name, n))
            at = f"{node.name}[{place}]" if place else node.name
            at = f"{at}.{quantity}" if quantity else at
            first, page = reader.ask("/explore", at=at)
            again, panel = reader.ask("/explore", PANEL, at=at)
            api, _ = reader.ask("/api/v1/explain", at=at)
            rows.append((first, again, api))
            pages.append(page)
            panels.append(panel)
            print(f"{at:44} page {first:6.2f} s {page:4} kB  panel {again:6.2f} s {panel:3} kB  API {api:6.2f} s  "
                  f"peak {reader.peak:,} MB", flush=True)  # fmt: skip
    for at in ("blocks.3.attn.pattern", "blocks.3.attn.exp.grad", "logits", "probs.grad", "W_E.grad"):
        took, size = reader.ask("/api/v1/values", at=at, format="npy")
        print(f"{at:44} file {took:6.2f} s {size // 1000:4} MB  peak {reader.peak:,} MB", flush=True)
    explain_anywhere(reader, n)
    named = zip(("page", "panel", "API"), zip(*rows, strict=True), strict=True)
    print("; ".join(f"{name}: median {median(times):.2f} s, most {max(times):.2f} s" for name, times in named))
    print(f"largest page {max(pages)} kB (limit {MOST_PAGE}), largest panel {max(panels)} kB (limit {MOST_PANEL})")
    print(f"peak {reader.peak:,} MB (limit {MOST_MEMORY:,})")
    if reader.peak > MOST_MEMORY or max(pages) > MOST_PAGE or max(panels) > MOST_PANEL:
        raise SystemExit("a limit is passed")


def explain_anywhere(reader: Reader, n: int) -> None:
    """Explanations at random addresses, values and slopes, in any site and parameter, block after block."""
    drawn, graph = Random(2), Graph(GPT2_SMALL)
    nodes = [drawn.choice([node for node in graph if node.name != "tokens"]) for _ in range(RANDOM)]
    faults, times = 0, []
    for node in sorted(nodes, key=lambda node: -1 if node.block is None else node.block):
        place = ",".join(str(drawn.randrange(size)) for size in graph.shape(node.name, n))
        at = (f"{node.name}[{place}]" if place else node.name) + drawn.choice(["", ".grad"])
        started = time.perf_counter()
        found = json.loads(reader.read("/api/v1/explain", at=at, limit="5"))
        times.append(time.perf_counter() - started)
        if found["fault"]:
            faults += 1
            print(f"FAULT {at}: off by {found['difference']}")
    middle = 1000 * median(times)
    print(f"{RANDOM:,} random explanations: median {middle:.0f} ms, most {max(times):.2f} s, {faults} faults")


if __name__ == "__main__":
    main()
