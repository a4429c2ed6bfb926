"""Why scores are divided by √d: dot products of random vectors, and the softmax of a few of them."""

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

PAIRS = 2000
KEYS = 8
BINS = 41


class Settings(base.Settings):
    """The length of the vectors, and the seed that makes them."""

    d: int = Field(64, ge=1, le=512)
    seed: int = Field(0, ge=0, le=9999)


@dataclass(frozen=True)
class Key:
    """One of the keys: its score as an expression, and its weight without and with the division."""

    n: int
    dot: str
    raw: str
    scaled: str
    raw_width: float
    scaled_width: float


@dataclass(frozen=True)
class View:
    """`spread` is the standard deviation of all dot products, measured; `root` is √d, `largest` the key with most."""

    histogram: Markup
    spread: float
    root: str
    keys: list[Key]
    largest: Key
    pairs: int


def view(scene: Scene, s: Settings) -> View:
    dots, few = products(s.d, s.seed)
    scores = [round(float(x), 2) for x in few]
    raw, scaled = weights(scores, 1.0), weights(scores, math.sqrt(s.d))
    keys = [
        Key(n, f"{score:g}", weight(scores, n, "1"), weight(scores, n, f"sqrt({s.d})"),
            round(100 * float(raw[n]), 2), round(100 * float(scaled[n]), 2))
        for n, score in enumerate(scores)
    ]  # fmt: skip
    return View(histogram(dots, s.d), float(dots.std()), f"sqrt({s.d})", keys, keys[int(raw.argmax())], PAIRS)


def products(d: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Dot products of PAIRS random pairs with entries of variance 1, and of one query with KEYS keys."""
    random = np.random.default_rng(seed)
    q, k = random.standard_normal((PAIRS, d)), random.standard_normal((PAIRS, d))
    return (q * k).sum(1), k[:KEYS] @ q[0]


def weights(scores: list[float], divisor: float) -> NDArray[np.float64]:
    x = np.array(scores) / divisor
    raised = np.exp(x - x.max())
    return np.asarray(raised / raised.sum())


def weight(scores: list[float], n: int, divisor: str) -> str:
    """One weight as an expression over the scores, which are rounded so that they can be typed into a calculator."""
    raised = [f"exp({_written(x)}/{divisor})" for x in scores]
    return f"{raised[n]}/({'+'.join(raised)})"


def _written(x: float) -> str:
    return f"({x:g})" if x < 0 else f"{x:g}"


def histogram(dots: NDArray[np.float64], d: int) -> Markup:
    """Dot products without the division (lines) and with it (filled), on one axis."""
    reach = 3.2 * math.sqrt(d)
    edges = np.linspace(-reach, reach, BINS + 1)
    wide, _ = np.histogram(dots, edges)
    small, _ = np.histogram(dots / math.sqrt(d), edges)
    x = plot.Scale(-reach, reach, 12, plot.WIDTH - 12)
    most = float(max(wide.max(), small.max()))
    y = plot.Scale(0, most, 118, 12)
    bar = (x.stop - x.start) / BINS
    filled = "".join(
        f"M{x(float(e)) + bar / 2:.1f} 118V{y(float(n)):.1f}" for e, n in zip(edges, small, strict=False) if n
    )
    steps = "".join(f"V{y(float(n)):.1f}H{x(float(e)) + bar:.1f}" for e, n in zip(edges, wide, strict=False))
    feet = "".join(
        f'<text x="{x(t):.1f}" y="136" text-anchor="middle">{numbers.tick_text(t)}</text>'
        f'<path class="grid-line" d="M{x(t):.1f} 118v4"/>'
        for t in plot.ticks(-reach, reach, 6)
    )
    inside = (
        f'<path class="axis" d="M{x.start:g} 118H{x.stop:g}"/>{feet}'
        f'<path class="second-bars" stroke-width="{bar * 0.8:.1f}" d="{filled}"/>'
        f'<path class="first" d="M{x.start:g} 118{steps}V118"/>'
        f'<text class="key-first" x="16" y="24">q·k</text><text class="key-second" x="16" y="42">q·k ÷ √{d}</text>'
    )
    return plot.drawing(inside, 142, f"Histogram of {PAIRS} dot products of random vectors of length {d}")


PART = Part(
    "scaling", "With and without ÷ √d", Settings, view, home="transformer#scale", rem=32,
    about="Random queries and keys of any length: how far their dot products spread, and what softmax makes of them.",
)  # fmt: skip
