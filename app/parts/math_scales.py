"""All probabilities of the vocabulary, sorted: on ordinary axes, and on a logarithmic one."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.parts.aim import SMALLEST
from app.parts.base import Rank, Scene, Settings, View, live_part
from app.render import numbers
from app.render.plot import Plot, Scale

LEFT, RIGHT, TOP, BOTTOM = 48.0, 388.0, 14.0, 158.0


@live_part("All probabilities, on two scales", home="math#scale", rem=36)
class Scales(Settings):
    """The whole vocabulary sorted by probability, on ordinary axes and on a logarithmic one."""

    rank: Rank | None = None  # 1 is the likeliest token; left out: 10, where there are so many

    def view(self, scene: Scene) -> View:
        """`below` counts the tokens that are under one pixel high on ordinary axes, an expression."""
        run, t, n = scene.run, scene.last, scene.model.config.d_vocab
        rank = min(10, n) if self.rank is None else self.rank
        logs = run.tensor("log_probs")[t].numpy().astype(np.float64) / math.log(10)
        order = np.argsort(-logs, kind="stable")
        falling = logs[order]
        token, last = int(order[rank - 1]), int(order[-1])
        return View(
            plain=drawn(10.0**falling, rank, False),
            logarithmic=drawn(falling, rank, True),
            rank=rank,
            token=token,
            probability=probability(scene, t, token),
            smallest=probability(scene, t, last),
            smallest_token=last,
            n=n,
            below=f"sum(positive(max(probs[{t},:])/{BOTTOM - TOP:g}-probs[{t},:]))",
        )


def probability(scene: Scene, t: int, token: int) -> str:
    """A probability's address; of one that float32 cannot hold, the same from its logarithm."""
    is_tiny = float(scene.run.tensor("probs")[t, token]) < SMALLEST
    return f"calc(exp(log_probs[{t},{token}]))" if is_tiny else f"probs[{t},{token}]"


def drawn(heights: NDArray[np.float64], rank: int, is_log: bool) -> Markup:
    """The heights by rank as a line; those of the log chart are powers of ten."""
    n, height = len(heights), float(heights[rank - 1])
    low = math.floor(float(heights[-1])) if is_log else 0.0
    plot = Plot(Scale(1, n, LEFT, RIGHT), Scale(low, 0.0 if is_log else float(heights[0]), BOTTOM, TOP))
    if is_log:
        plot.rows(powers(low), lambda tick: f"10{numbers.superscript(round(tick))}" if tick else "1")
    else:
        plot.rows(plot.y.ticks(), lambda tick: numbers.percent(tick) if tick else "0")
    for place, words, anchor in ((1, "1", "start"), (n, numbers.count(n), "end"), ((1 + n) / 2, "rank", "middle")):
        plot.text(words, plot.x(place), BOTTOM + 17, anchor=anchor)
    ranks = np.unique(np.concatenate([np.arange(1, min(n, 40) + 1), np.linspace(1, n, 200).astype(int)]))
    plot.curve("total", ranks, heights[ranks - 1])
    plot.guide(rank, height)
    plot.dot("end", rank, height)
    side, dx = ("end", -8) if plot.x(rank) > 230 else ("start", 8)
    plot.text(f"rank {rank}", plot.x(rank) + dx, max(plot.y(height) - 8, 22), css="end", anchor=side)
    axes = "a logarithmic axis" if is_log else "ordinary axes"
    return plot.svg(182, f"The probabilities of all {n} tokens by rank, on {axes}")


def powers(low: float) -> list[float]:
    """Whole powers of ten down to the lowest, about five of them."""
    step = max(1, math.ceil(-low / 5))
    return [float(-k) for k in range(0, round(-low) + 1, step)]
