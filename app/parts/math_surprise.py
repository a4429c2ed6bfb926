"""The sentence token by token: the product of the probabilities, and the sum of their costs."""

from __future__ import annotations

import math

import numpy as np

from app.parts.aim import chance_of_first, cost_of_first
from app.parts.base import Position, Scene, Settings, View, live_part

PAGE = 40
NAMED = 3
LEAST = 1.4e-45  # the smallest number above 0 that float32 can hold


@live_part("Every token and its cost", home="math#product", rem=36)
class Surprise(Settings):
    """The probability of each token of your sentence, their product, and the sum of their costs."""

    start: Position = 0

    def view(self, scene: Scene) -> View:
        """`n` counts the predictions, 0 for a single token; `worst` are those that cost most, dearest first."""
        n = scene.last
        costs = scene.run.tensor("loss_per_token")[:n].numpy().astype(np.float64)
        totals = np.cumsum(costs)
        most = float(costs.max()) if n else 1.0
        dies = np.flatnonzero(totals > -math.log(LEAST))

        def row(t: int) -> View:
            """The token that came after position `t`: product and sum up to here."""
            product = chance_of_first(scene.num, t + 1, float(totals[t]))
            return View(t=t, product=product, sum=cost_of_first(t + 1), share=float(costs[t]) / (most or 1.0))

        return View(
            rows=[row(t) for t in range(self.start, min(n, self.start + PAGE))],
            n=n,
            page=PAGE,
            product=row(n - 1).product if n else "",
            sum=cost_of_first(n),
            worst=np.argsort(-costs, kind="stable")[:NAMED].tolist(),
            float32_dies=int(dies[0]) + 1 if dies.size else None,
        )
