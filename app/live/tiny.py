"""The lesson's own GPT, model/tiny.py, trained while the reader waits: its loss on the way and what it writes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from markupsafe import Markup
from pydantic import Field

from app.live import base
from app.live.base import Part, Scene
from app.present import charts
from model.errors import SettingError
from model.tiny import TinyGPT, generate, train_step

CONTEXT = 64
WRITES = 48


class Settings(base.Settings):
    """What it learns, for how many rounds, from which random start."""

    learns: str = Field("the cat sat on the mat. the dog sat on the log. ", min_length=4, max_length=400)
    rounds: int = Field(40, ge=1, le=100)
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
    ids = torch.tensor([list(data)])
    model, losses = trained(ids, s.rounds, s.seed)
    prompt = ids[:, : min(8, ids.shape[1] - 1)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(s.seed)
        made = bytes(generate(model, prompt, WRITES, temperature=0.3)[0].tolist())
    return View(
        losses, curve(losses), bytes(prompt[0].tolist()).decode("utf-8", "replace"),
        made[prompt.shape[1] :].decode("utf-8", "replace"), sum(p.numel() for p in model.parameters()),
        losses[-1] < losses[0], 256,
    )  # fmt: skip


def trained(ids: torch.Tensor, steps: int, seed: int) -> tuple[TinyGPT, list[float]]:
    """A fresh model and its loss before each step. The text is cut into pieces that fit the context."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        model = TinyGPT(vocabulary=256, context=CONTEXT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    piece = ids.shape[1] if ids.shape[1] <= CONTEXT else CONTEXT
    starts = [n * piece for n in range(max(1, ids.shape[1] // piece))]
    batch = torch.cat([ids[:, start : start + piece] for start in starts])
    return model, [train_step(model, optimizer, batch) for _ in range(steps)]


def curve(losses: list[float]) -> Markup:
    """The loss, step by step."""
    x = charts.Scale(0, max(len(losses) - 1, 1), 34, 386)
    y = charts.Scale(0, max(losses), 112, 10)
    line = "L".join(charts.point(x(n), y(loss)) for n, loss in enumerate(losses))
    marks = "".join(
        f'<path class="grid-line" d="M34 {y(t):.1f}H386"/>'
        f'<text x="28" y="{y(t) + 4:.1f}" text-anchor="end">{charts.tick_text(t)}</text>'
        for t in charts.ticks(0, max(losses), 4)
    ) + "".join(
        f'<text x="{x(t):.1f}" y="130" text-anchor="middle">{t:g}</text>'
        for t in charts.ticks(0, max(len(losses) - 1, 1), 5)
    )
    inside = f'{marks}<path class="axis" d="M34 112H386"/><path class="total" d="M{line}"/>'
    return charts.drawing(inside, 136, f"Loss over {len(losses)} steps, from {losses[0]:.2f} to {np.min(losses):.2f}")


PART = Part(
    "tiny", "Run the file", Settings, view, home="transformer#code", rem=28,
    about="Train the small GPT of this section on a text of yours and see what it writes.",
)  # fmt: skip
