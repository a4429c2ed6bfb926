"""Every score's slope at once: predicted minus actual."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from app.parts.aim import aim, largest_slopes
from app.parts.base import Scene, Settings, View, live_part
from app.render import charts


@live_part("Every slope at once", home="math#every-slope", rem=28)
class Slopes(Settings):
    """The slope of the loss along each score: what the model predicted, minus what was right."""

    words: int = Field(8, ge=1, le=40)

    def view(self, scene: Scene) -> View:
        goal = aim(scene.run)
        slopes = scene.run.gradient("logits")[goal.t].numpy()
        tokens = largest_slopes(slopes, goal, self.words)
        most = float(np.abs(slopes).max())
        return View(
            aim=goal,
            rows=[(token, charts.signed_bar(float(slopes[token]), most, 128)) for token in tokens],
            others=f"sum({goal.slopes})-{goal.logit}.grad",
            rest=f"sum({goal.slopes})-({'+'.join(f'logits[{goal.t},{token}].grad' for token in tokens)})",
            n_rest=len(slopes) - len(tokens),
        )
