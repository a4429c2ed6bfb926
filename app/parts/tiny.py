"""The lesson's own GPT, model/tiny.py, trained while the reader waits: its loss on the way and what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from markupsafe import Markup
from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.render.plot import Plot, Scale
from model.tiny import TinyGPT, generate, train_step

CONTEXT = 64
WRITES = 48


@live_part("Run the file", home="transformer#code", rem=28)
class Tiny(Settings):
    """Train the small GPT of this section on a text of yours and see what it writes."""

    learns: str = Field("the cat sat on the mat. the dog sat on the log. ", min_length=4, max_length=400)
    rounds: int = Field(25, ge=1, le=100)
    seed: int = Field(0, ge=0, le=9999)

    def view(self, scene: Scene) -> View:
        made = learned(self.learns.encode(), self.rounds, self.seed)
        return View(
            losses=made.losses,
            chart=curve(made.losses),
            prompt=made.prompt.decode("utf-8", "replace"),
            written=made.written.decode("utf-8", "replace"),
            n_parameters=made.n_parameters,
        )


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
    n_parameters = sum(p.numel() for p in model.parameters())
    return Learned(tuple(losses), data[: prompt.shape[1]], made[prompt.shape[1] :], n_parameters)


def trained(ids: torch.Tensor, rounds: int) -> tuple[TinyGPT, list[float]]:
    """A fresh model and its loss before each step. The text is cut into pieces that fit the context."""
    model = TinyGPT(vocabulary=256, context=CONTEXT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    piece = ids.shape[1] if ids.shape[1] <= CONTEXT else CONTEXT
    starts = [n * piece for n in range(max(1, ids.shape[1] // piece))]
    batch = torch.cat([ids[:, start : start + piece] for start in starts])
    return model, [train_step(model, optimizer, batch) for _ in range(rounds)]


def curve(losses: tuple[float, ...]) -> Markup:
    """The loss, step by step."""
    plot = Plot(Scale(0, max(len(losses) - 1, 1), 34, 386), Scale(0, max(losses), 112, 10))
    plot.rows(plot.y.ticks())
    plot.feet(plot.x.ticks(5), below=18)
    plot.base()
    plot.curve("total", range(len(losses)), losses)
    return plot.svg(136, f"Loss over {len(losses)} steps, from {losses[0]:.2f} to {min(losses):.2f}")
