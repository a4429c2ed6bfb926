"""Why scores are divided by √d: dot products of random vectors, and the softmax of a few of them."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.parts.expressions import softmax, written
from app.render.plot import WIDTH, Plot, Scale, px

PAIRS = 2000
KEYS = 8
BINS = 41


@live_part("With and without ÷ √d", home="transformer#scale", rem=32)
class Scaling(Settings):
    """Random queries and keys of any length: how far their dot products spread, and what softmax makes of them."""

    d: int = Field(64, ge=1, le=512)
    seed: int = Field(0, ge=0, le=9999)

    def view(self, scene: Scene) -> View:
        """`spread` is the standard deviation of all dot products, measured; `largest` the key with most.

        The scores are rounded so that they can be typed into a calculator.
        """
        dots, few = products(self.d, self.seed)
        scores = [round(float(x), 2) for x in few]
        ways = [
            (softmax([f"{written(z)}/{divisor}" for z in scores]), shares(np.array(scores) / root))
            for divisor, root in (("1", 1.0), (f"sqrt({self.d})", math.sqrt(self.d)))
        ]
        keys = [(f"{z:g}", [(one[n], float(x[n])) for one, x in ways]) for n, z in enumerate(scores)]
        return View(
            histogram=histogram(dots, self.d),
            spread=float(dots.std()),
            keys=keys,
            largest=keys[int(ways[0][1].argmax())],
            pairs=PAIRS,
        )


def products(d: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Dot products of PAIRS random pairs with entries of variance 1, and of one query with KEYS keys."""
    random = np.random.default_rng(seed)
    q, k = random.standard_normal((PAIRS, d)), random.standard_normal((PAIRS, d))
    return (q * k).sum(1), k[:KEYS] @ q[0]


def shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    raised = np.exp(scores - scores.max())
    return np.asarray(raised / raised.sum())


def histogram(dots: NDArray[np.float64], d: int) -> Markup:
    """Dot products without the division (lines) and with it (filled), on one axis."""
    reach = 3.2 * math.sqrt(d)
    edges = np.linspace(-reach, reach, BINS + 1)
    wide, _ = np.histogram(dots, edges)
    small, _ = np.histogram(dots / math.sqrt(d), edges)
    plot = Plot(Scale(-reach, reach, 12, WIDTH - 12), Scale(0, float(max(wide.max(), small.max())), 118, 12))
    lefts = [plot.x(float(edge)) for edge in edges[:-1]]
    bar = (plot.x.stop - plot.x.start) / BINS
    plot.base()
    plot.feet(plot.x.ticks(6), below=18)
    plot.notches(plot.x.ticks(6))
    filled = (f"M{px(left + bar / 2)} 118V{px(plot.y(n))}" for left, n in zip(lefts, small.tolist(), strict=True) if n)
    steps = (f"V{px(plot.y(n))}H{px(left + bar)}" for left, n in zip(lefts, wide.tolist(), strict=True))
    plot.path("second-bars", "".join(filled), stroke=bar * 0.8)
    plot.path("first", f"M{px(plot.x.start)} 118{''.join(steps)}V118")
    plot.text("q·k", 16, 24, css="key-first")
    plot.text(f"q·k ÷ √{d}", 16, 42, css="key-second")
    return plot.svg(142, f"Histogram of {PAIRS} dot products of random vectors of length {d}")
