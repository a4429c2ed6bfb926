"""All probabilities of the vocabulary, sorted: on ordinary axes, and on a logarithmic one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.render import numbers, plot
from model.errors import SettingError

LEFT, RIGHT, TOP, BOTTOM = 48.0, 388.0, 14.0, 158.0


class Settings(base.Settings):
    """The rank that is marked; 1 is the likeliest token. Left out: 10, where there are so many."""

    rank: int | None = Field(None, ge=1, le=10_000_000)


@dataclass(frozen=True)
class View:
    """`below` counts the tokens that are under one pixel high on ordinary axes, an expression."""

    plain: Markup
    logarithmic: Markup
    rank: int
    token: Markup
    probability: str
    smallest: str
    smallest_token: Markup
    n: int
    below: str
    most_slider: int


def view(scene: Scene, s: Settings) -> View:
    run, t, n = scene.run, scene.last, scene.model.config.d_vocab
    rank = min(10, n) if s.rank is None else s.rank
    if rank > n:
        raise SettingError("rank", f"There is no rank {rank}: the vocabulary has {n} tokens.", "Write rank=1.")
    logs = run.tensor("log_probs")[t].numpy().astype(np.float64) / math.log(10)
    order = np.argsort(-logs, kind="stable")
    falling = logs[order]
    token, last = int(order[rank - 1]), int(order[-1])
    return View(
        drawn(10.0**falling, rank, False), drawn(falling, rank, True), rank, scene.num.token(token),
        at(scene, t, token), at(scene, t, last), scene.num.token(last), n,
        f"sum(positive(max(probs[{t},:])/{BOTTOM - TOP:g}-probs[{t},:]))", min(n, 2000),
    )  # fmt: skip


def at(scene: Scene, t: int, token: int) -> str:
    """A probability's address; of one that float32 cannot hold, the same from its logarithm."""
    tiny = float(scene.run.tensor("probs")[t, token]) < 1e-37
    return f"calc(exp(log_probs[{t},{token}]))" if tiny else f"probs[{t},{token}]"


def drawn(heights: NDArray[np.float64], rank: int, is_log: bool) -> Markup:
    """The heights by rank as a line; those of the log chart are powers of ten."""
    n = len(heights)
    low = math.floor(float(heights[-1])) if is_log else 0.0
    high = 0.0 if is_log else float(heights[0])
    x, y = plot.Scale(1, n, LEFT, RIGHT), plot.Scale(low, high, BOTTOM, TOP)
    ranks = np.unique(np.concatenate([np.arange(1, min(n, 40) + 1), np.linspace(1, n, 200).astype(int)]))
    d = "M" + "L".join(plot.point(x(float(r)), y(float(heights[r - 1]))) for r in ranks.tolist())
    parts = []
    for tick in powers(low) if is_log else plot.ticks(low, high, 4):
        text = power(tick) if is_log else numbers.percent(tick) if tick else "0"
        parts.append(
            f'<path class="grid-line" d="M{LEFT:g} {y(tick):.1f}H{RIGHT:g}"/>'
            f'<text x="{LEFT - 6:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{text}</text>'
        )
    for place in (1, n):
        anchor = "start" if place == 1 else "end"
        parts.append(
            f'<text x="{x(place):.1f}" y="{BOTTOM + 17:g}" text-anchor="{anchor}">{numbers.count(place)}</text>'
        )
    here = y(float(heights[rank - 1]))
    side, dx = ("end", -8) if x(rank) > 230 else ("start", 8)
    parts.append(
        f'<text x="{(LEFT + RIGHT) / 2:g}" y="{BOTTOM + 17:g}" text-anchor="middle">rank</text>'
        f'<path class="total" d="{d}"/><path class="guide" d="M{x(rank):.1f} {BOTTOM:g}V{here:.1f}"/>'
        f'<circle class="end" cx="{x(rank):.1f}" cy="{here:.1f}" r="4"/>'
        f'<text class="end" x="{x(rank) + dx:.1f}" y="{max(here - 8, 22):.1f}" text-anchor="{side}">rank {rank}</text>'
    )
    axes = "a logarithmic axis" if is_log else "ordinary axes"
    return plot.drawing("".join(parts), 182, f"The probabilities of all {n} tokens by rank, on {axes}")


def powers(low: float) -> list[float]:
    """Whole powers of ten down to the lowest, about five of them."""
    step = max(1, math.ceil(-low / 5))
    return [float(-k) for k in range(0, round(-low) + 1, step)]


def power(tick: float) -> str:
    return "1" if tick == 0 else f"10{numbers.superscript(round(tick))}"


PART = Part(
    "math_scales", "All probabilities, on two scales", Settings, view, home="math#scale", rem=36,
    about="The whole vocabulary sorted by probability, on ordinary axes and on a logarithmic one.",
)  # fmt: skip
