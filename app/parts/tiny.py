"""The lesson's own GPT, model/tiny.py, trained while the reader waits: its loss on the way and what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.render import numbers, plot
from model.errors import SettingError
from model.tiny import TinyGPT, generate, train_step

CONTEXT = 64
WRITES = 48


class Settings(base.Settings):
    """What it learns, for how many rounds, from which random start."""

    learns: str = Field("the cat sat on the mat. the dog sat on the log. ", min_length=4, max_length=400)
    rounds: int = Field(25, ge=1, le=100)
    seed: int = Field(0, ge=0, le=9999)


@dataclass(frozen=True)
class View:
    losses: list[float]
    chart: Markup
    prompt: str
    written: str
    n_parameters: int
    lower: bool
    vocabulary: int


def view(scene: Scene, s: Settings) -> View:
    data = s.learns.encode()
    if len(data) < 4:
        raise SettingError("learns", "That is too short to learn from.", "Write at least four letters.")
    made = learned(data, s.rounds, s.seed)
    return View(
        list(made.losses), curve(list(made.losses)), made.prompt.decode("utf-8", "replace"),
        made.written.decode("utf-8", "replace"), made.n_parameters, made.losses[-1] < made.losses[0], 256,
    )  # fmt: skip


@dataclass(frozen=True)
class Learned:
    """What a fresh model made of a text."""

    losses: tuple[float, ...]
    prompt: bytes
    written: bytes
    n_parameters: int


@lru_cache(maxsize=64)
def learned(data: bytes, rounds: int, seed: int) -> Learned:
    """Train a fresh model, then let it go on from the text's beginning. The same seed gives the same."""
    ids = torch.tensor([list(data)])
    prompt = ids[:, : min(8, ids.shape[1] - 1)]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        model, losses = trained(ids, rounds)
        made = bytes(generate(model, prompt, WRITES, temperature=0.3)[0].tolist())
    return Learned(
        tuple(losses), data[: prompt.shape[1]], made[prompt.shape[1] :], sum(p.numel() for p in model.parameters())
    )


def trained(ids: torch.Tensor, rounds: int) -> tuple[TinyGPT, list[float]]:
    """A fresh model and its loss before each step. The text is cut into pieces that fit the context."""
    model = TinyGPT(vocabulary=256, context=CONTEXT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    piece = ids.shape[1] if ids.shape[1] <= CONTEXT else CONTEXT
    starts = [n * piece for n in range(max(1, ids.shape[1] // piece))]
    batch = torch.cat([ids[:, start : start + piece] for start in starts])
    return model, [train_step(model, optimizer, batch) for _ in range(rounds)]


def curve(losses: list[float]) -> Markup:
    """The loss, step by step."""
    x = plot.Scale(0, max(len(losses) - 1, 1), 34, 386)
    y = plot.Scale(0, max(losses), 112, 10)
    line = "L".join(plot.point(x(n), y(loss)) for n, loss in enumerate(losses))
    marks = "".join(
        f'<path class="grid-line" d="M34 {y(t):.1f}H386"/>'
        f'<text x="28" y="{y(t) + 4:.1f}" text-anchor="end">{numbers.tick_text(t)}</text>'
        for t in plot.ticks(0, max(losses), 4)
    ) + "".join(
        f'<text x="{x(t):.1f}" y="130" text-anchor="middle">{t:g}</text>'
        for t in plot.ticks(0, max(len(losses) - 1, 1), 5)
    )
    inside = f'{marks}<path class="axis" d="M34 112H386"/><path class="total" d="M{line}"/>'
    return plot.drawing(inside, 136, f"Loss over {len(losses)} steps, from {losses[0]:.2f} to {np.min(losses):.2f}")


PART = Part(
    "tiny", "Run the file", Settings, view, home="transformer#code", rem=28,
    about="Train the small GPT of this section on a text of yours and see what it writes.",
)  # fmt: skip
