"""∂L/∂h as a sum over the vocabulary: every word's row times how much that word was overrated."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.parts.aim import aim, largest_slopes
from app.parts.base import Entry, Scene, Settings, View, live_part
from app.render import heat

COLUMNS = 5
WORDS = 6


@live_part("A pull from every word", home="math#pull", rem=28)
class Pull(Settings):
    """The slope along the last row as a sum: each word’s row, weighted by how much it was overrated."""

    start: Entry = 0

    def view(self, scene: Scene) -> View:
        """`rows` are words with their weighted rows, as a picture and some entries of it; `rest` and `total` are
        entries of the other words' together and of all. `rises`: the right score would, were h moved.
        """
        run, goal = scene.run, aim(scene.run)
        slopes = run.gradient("logits")[goal.t].numpy()
        tokens = largest_slopes(slopes, goal, WORDS - 1)
        table, whole = scene.model.parameter("W_E").numpy(), run.gradient("ln_final.out")[goal.t].numpy()
        weighted = slopes[tokens, None] * table[tokens]
        rest = whole - weighted.sum(0)
        scale = heat.Scale(float(np.abs(np.vstack([weighted, rest, whole])).max()))

        def picture(row: NDArray[np.float32], name: str) -> Markup:
            return heat.picture(scale.steps(row[None]), f"pull-{name}")

        moves = -(table @ whole)
        columns = range(self.start, min(len(whole), self.start + COLUMNS))
        entries = [[f"logits[{goal.t},{v}].grad*W_E[{v},{i}]" for i in columns] for v in tokens]
        total = [f"ln_final.out[{goal.t},{i}].grad" for i in columns]
        return View(
            aim=goal,
            columns=columns,
            page=COLUMNS,
            rows=[(v, picture(weighted[n], str(n)), entries[n]) for n, v in enumerate(tokens)],
            n_rest=len(slopes) - len(tokens),
            rest=[f"{all_words}-({'+'.join(listed)})" for all_words, *listed in zip(total, *entries, strict=True)],
            total=total,
            rest_picture=picture(rest, "rest"),
            total_picture=picture(whole, "all"),
            rises=bool(moves[goal.token] > 0),
            leads=bool(moves[goal.token] >= moves.max()),
        )
