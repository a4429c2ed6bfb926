"""The residual stream: how long its row is, how much each block adds, and how the slope survives on its way back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from pydantic import Field

from app.live import base
from app.live.base import Part, Scene
from app.live.neurons import place_of
from app.present import charts
from model import Run
from model.kv_cache import blocks_of


class Settings(base.Settings):
    """The position whose row is measured; left out, the last."""

    t: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class Layer:
    """Lengths as expressions: of the row that enters, of what attention and the feed-forward network add.

    `slope` is the size of ∂loss/∂(what enters), over all positions; `alone` the same in a network that does not add.
    """

    block: int
    enters: str
    attention: str
    feed_forward: str
    slope: str
    alone: float
    widths: tuple[float, float, float]


@dataclass(frozen=True)
class View:
    """`kept` is the slope's size where block 0 begins over that where the last does, `kept_alone` without adding.

    `alike`: the two differ by less than a quarter; `helps`: `kept` is the nearer to 1.
    """

    layers: list[Layer]
    leaves: str
    t: int
    kept: str
    kept_alone: str
    alike: bool
    helps: bool


def view(scene: Scene, s: Settings) -> View:
    t, _ = place_of(scene, 0, s.t)
    run, layers = scene.run, range(scene.model.config.n_layer)
    alone = slopes_without_adding(run)[:-1]
    sites = [(f"blocks.{b}.resid_pre", f"blocks.{b}.attn_out", f"blocks.{b}.mlp_out") for b in layers]
    measured = [[float(run.tensor(site)[t].norm()) for site in three] for three in sites]
    leaves = f"blocks.{layers[-1]}.resid_post"
    most = max(max(map(max, measured)), float(run.tensor(leaves)[t].norm())) or 1.0
    found = []
    for b, three in enumerate(sites):
        enters, attention, feed_forward = (length(f"{site}[{t},:]") for site in three)
        w0, w1, w2 = (round(100 * x / most, 2) for x in measured[b])
        found.append(
            Layer(b, enters, attention, feed_forward, length(f"blocks.{b}.resid_pre[:,:].grad"), alone[b], (w0, w1, w2))
        )
    first, last = run.gradient("blocks.0.resid_pre").norm(), run.gradient(f"blocks.{layers[-1]}.resid_pre").norm()
    kept, kept_alone = (float(first / last) if last else 0.0), (alone[0] / alone[-1] if alone[-1] else 0.0)
    log, log_alone = (math.log(size or 1e-30) for size in (kept, kept_alone))
    return View(
        found, length(f"{leaves}[{t},:]"), t, charts.brief(kept), charts.brief(kept_alone),
        abs(log - log_alone) < math.log(1.25), abs(log) < abs(log_alone),
    )  # fmt: skip


def length(row: str) -> str:
    """√Σx² of a range."""
    return f"sqrt(sum({row}*{row}))"


def slopes_without_adding(run: Run) -> list[float]:
    """‖∂loss/∂x‖ before each block and after the last of the same weights with both additions left out:
    x = attention(…), x = mlp(…).
    """
    net = run.model.net
    with torch.enable_grad():
        x = (net.W_E[run.token_tensor] + net.W_pos[: run.n_pos])[None].detach().requires_grad_()
        before = []
        for block in blocks_of(net):
            before.append(x)
            x = block.attn(block.ln1(x))
            x = block.mlp(block.ln2(x))
        before.append(x)
        chances = (net.ln_final(x) @ net.W_E.T)[0].log_softmax(-1)
        loss = -torch.stack([chances[t, run.next_token(t)] for t in run.scored]).mean()
        return [float(slope.norm()) for slope in torch.autograd.grad(loss, before)]


PART = Part(
    "stream", "The stream, block by block", Settings, view, home="transformer#add", rem=28,
    about="How much each block adds to a row, and how large the gradient is with and without the additions.",
)  # fmt: skip
