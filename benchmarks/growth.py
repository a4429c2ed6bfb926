"""How time and memory grow: with the length of the text, and with the size of the model."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import torch

from app.settings import AppSettings
from benchmarks import nets
from benchmarks.nets import GPT2_SMALL
from benchmarks.table import Row, Table
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.ops.values import Prompt
from model.runtime.backward import site_gradients
from model.runtime.language_model import LanguageModel
from model.runtime.long_run import LongRun
from model.runtime.run import Run
from model.weights.tokenizer import Tokenizer

T = TypeVar("T")

LENGTHS = (15, 64, 128, 256, 512, 1024)
SHAPES = {
    "distilgpt2": replace(GPT2_SMALL, n_layer=6),
    "gpt2": GPT2_SMALL,
    "gpt2-medium": replace(GPT2_SMALL, n_layer=24, n_head=16, d_model=1024, d_mlp=4096),
    "gpt2-large": replace(GPT2_SMALL, n_layer=36, n_head=20, d_model=1280, d_mlp=5120),
    "gpt2-xl": replace(GPT2_SMALL, n_layer=48, n_head=25, d_model=1600, d_mlp=6400),
}
ROUNDS = 3
ROOM = 1.5  # times its weights must be free for a model to be measured
MEGA = 2**20


def tables() -> Iterator[Table]:
    yield by_length()
    yield by_size()


def by_length() -> Table:
    """What a run of GPT-2 small's shape costs and holds."""
    limit = AppSettings.model_fields["long_run_mb"].default * MEGA
    rows = [of_length(n, limit) for n in LENGTHS]
    return Table(
        "A run by the length of its text",
        ("tokens", "forward ms", "ms a token", "gradients ms", "sites MB", "sites and gradients MB", "served as"),
        rows,
        "GPT-2 small's shape, kept whole. Served, a run whose sites would take more than "
        f"{limit // MEGA} MB keeps its residual stream alone; how much that is stands in the last column.",
    )


def of_length(n: int, limit: int) -> Row:
    model, ids = nets.ours(), nets.tokens(n)

    prompt = Prompt("", tuple(ids), target=5)
    took, run = timed(lambda: Run.of(model, prompt))
    sites = run.nbytes
    back, _ = timed(lambda: site_gradients(run, model.capture.net))
    run.gradient("embed")
    both = run.nbytes
    served = "whole"
    if model.sites_nbytes(n) > limit:
        served = f"its stream, {LongRun.of(model, prompt).nbytes / MEGA:.0f} MB"
    return (
        f"{n:,}", f"{1000 * took:.0f}", f"{1000 * took / n:.1f}", f"{1000 * back:.0f}",
        f"{sites / MEGA:,.0f}", f"{both / MEGA:,.0f}", served,
    )  # fmt: skip


def by_size() -> Table:
    """The published shapes, one after the other."""
    rows = [of_shape(name, config) for name, config in SHAPES.items()]
    return Table(
        "A run by the size of the model",
        ("shape", "weights", "weights MB", "forward ms", "gradients ms", "sites and gradients MB"),
        rows,
        "15 tokens, random weights.",
    )


def of_shape(name: str, config: GPT2Config) -> Row:
    n = sum(p.numel() for p in on_meta(config).parameters())
    size = 4 * n
    told = (name, f"{n / 1e6:,.0f} M", f"{size / MEGA:,.0f}")
    if free_memory() < ROOM * size:
        return (*told, f"skipped: needs {ROOM * size / MEGA:,.0f} MB of free memory", "", "")
    model = LanguageModel(name, with_random_weights(config), Tokenizer({bytes([b]): b + 1 for b in range(256)}, 0))

    took, run = timed(lambda: Run.of(model, Prompt("", tuple(nets.tokens(15)), target=5)))
    back, _ = timed(lambda: site_gradients(run, model.capture.net))
    run.gradient("embed")
    return (*told, f"{1000 * took:.0f}", f"{1000 * back:.0f}", f"{run.nbytes / MEGA:,.0f}")


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """The median of seconds, and what the last call returned; the first call is not counted."""
    times = []
    for _ in range(ROUNDS + 1):
        gc.collect()
        started = time.perf_counter()
        found = call()
        times.append(time.perf_counter() - started)
    return median(times[1:]), found


def on_meta(config: GPT2Config) -> GPT2:
    with torch.device("meta"):
        return GPT2(config)


def with_random_weights(config: GPT2Config) -> GPT2:
    """One draw of a million numbers, over and over: for timing as good as others, and a hundred times quicker."""
    net = on_meta(config).to_empty(device="cpu")
    drawn = 0.02 * torch.randn(2**20, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for p in net.parameters():
            for piece in p.view(-1).split(len(drawn)):
                piece.copy_(drawn[: len(piece)])
    return net.eval()


def free_memory() -> float:
    """Bytes that a new process could take; endless where the system does not tell."""
    info = Path("/proc/meminfo")
    if not info.exists():
        return float("inf")
    lines = dict(line.split(":", 1) for line in info.read_text().splitlines())
    return 1024 * float(lines["MemAvailable"].split()[0])
