"""What a reader waits for: the first page of a new sentence, and explanations on a warm run, by op.

The server runs in this process, asked one question after the other; a time is all that the server does for an answer.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlencode

import torch
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings
from benchmarks.long_text import PANEL, checkpoint
from benchmarks.nets import GPT2_SMALL
from benchmarks.table import Row, Table, verdict
from model.address.parser import Address
from model.arch.gpt2.config import GPT2Config
from model.arch.graph import Graph
from model.loading import EMBEDDED, load

SENTENCES = 12
PLACES = 6  # of each site, the first of which warms it
MOST_PAGE, MOST_PANEL = 120, 40  # kB
MOST_TIME = 25.0  # milliseconds, for 95 explanations of 100
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "an", "old", "dog", "by", "that", "tree", "with", "red"]


def tables() -> Iterator[Table]:
    """Both models: the embedded one, and random weights of GPT-2 small's shape."""
    first: list[Row] = []
    by_op: list[Table] = []
    with tempfile.TemporaryDirectory() as scratch:
        large = checkpoint(Path(scratch) / "gpt2-random")
        for title, model, config in (
            ("embedded", "embedded", load(EMBEDDED).config),
            ("GPT-2 small's shape", str(large), GPT2_SMALL),
        ):
            with serving(model) as reader:
                first.append([title, *first_pages(reader)])
                by_op.append(explanations(reader, title, config))
    yield Table(
        "A new sentence to its first page",
        ("model", "median ms", "most ms", "HTML kB", "limit kB", ""),
        first,
        "`/explore` with a sentence of about 15 tokens that the server has not seen, the model loaded; "
        f"{SENTENCES} sentences.",
    )
    yield from by_op


class Reader:
    """Asks the server in this process."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def ask(self, headers: dict[str, str] | None = None, **query: str) -> tuple[float, int]:
        """Milliseconds and bytes of an answer of `/explore`."""
        url = f"/explore?{urlencode(query)}"
        started = time.perf_counter()
        answer = self.client.get(url, headers=headers)
        elapsed = 1000 * (time.perf_counter() - started)
        if answer.status_code != 200:
            raise RuntimeError(f"{url}: {answer.status_code}")
        return elapsed, len(answer.content)


@contextmanager
def serving(model: str) -> Iterator[Reader]:
    """The app with its usual settings on one model, as it starts."""
    threads = torch.get_num_threads()
    try:
        with TestClient(create_app(AppSettings(model=model))) as client:
            yield Reader(client)
    finally:
        torch.set_num_threads(threads)  # the app sets what suits its model


def sentence(seed: int) -> str:
    """Fourteen short words, each a token or few."""
    return " ".join(random.Random(seed).choices(WORDS, k=14))


def first_pages(reader: Reader) -> Row:
    reader.ask(text="A page to warm up")
    times, sizes = zip(*(reader.ask(text=sentence(n)) for n in range(SENTENCES)), strict=True)
    kilobytes = max(sizes) / 1000
    return (
        f"{median(times):.0f}", f"{max(times):.0f}", f"{kilobytes:.0f}", f"≤ {MOST_PAGE}", verdict(kilobytes, MOST_PAGE)
    )  # fmt: skip


def explanations(reader: Reader, title: str, config: GPT2Config) -> Table:
    """The why panel at random places of every site and parameter of a middle block and around the blocks."""
    graph, drawn, text = Graph(config), random.Random(0), sentence(0)
    n_pos = len(reader.client.get("/api/v1/run", params={"text": text}).json()["tokens"])
    by_op: dict[str, list[tuple[float, int]]] = {}
    for quantity in ("", "grad"):
        for node in graph:
            if node.block not in (None, config.n_layer // 2) or (quantity and node.name == "tokens"):
                continue
            for n in range(PLACES):
                place = tuple(drawn.randrange(size) for size in graph.shape(node.name, n_pos))
                found = reader.ask(PANEL, text=text, at=str(Address(node.name, place, quantity)))
                if n:  # the first of a site derives it
                    by_op.setdefault(node.op.name + (", gradient" if quantity else ""), []).append(found)
    every = [found for of_op in by_op.values() for found in of_op]
    rows = [timed(name, found) for name, found in sorted(by_op.items())]
    late, largest = quantiles([time for time, _ in every], n=20)[-1], max(size for _, size in every) / 1000
    rows.append([*timed("**all**", every)[:-1], verdict(late, MOST_TIME) + ", " + verdict(largest, MOST_PANEL)])
    return Table(
        f"Explanations by op, {title}",
        ("op", "median ms", "95 of 100 within ms", "largest kB", ""),
        rows,
        f"The panel of a number in a warm run of {n_pos} tokens, {PLACES - 1} places of each site. "
        f"Limits, of all: 95 of 100 within {MOST_TIME:g} ms, HTML of {MOST_PANEL} kB.",
    )


def timed(name: str, found: list[tuple[float, int]]) -> Row:
    times = [time for time, _ in found]
    late = quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
    return [name, f"{median(times):.1f}", f"{late:.1f}", f"{max(size for _, size in found) / 1000:.0f}", ""]
