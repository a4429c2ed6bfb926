"""Every position is a free example: what each one predicted, the probability of what came, and its cost."""

from __future__ import annotations

from app.parts.base import Position, Scene, Settings, View, live_part

PAGE = 40


@live_part("Every position a prediction", home="transformer#examples", rem=40)
class Predictions(Settings):
    """What the model expected after each token of your sentence, and what each surprise cost."""

    start: Position = 0

    def view(self, scene: Scene) -> View:
        """`right` counts the text's own predictions that came true, `worst` is the costliest of them."""
        run, last = scene.run, scene.last
        costs = run.tensor("loss_per_token").numpy()
        most = float(costs.max()) or 1.0
        rows = [
            View(t=t, next=run.next_token(t), guess=run.largest_logit(t), share=float(costs[t]) / most)
            for t in range(last + 1)
        ]
        inside = rows[:-1]
        return View(
            rows=rows[self.start : self.start + PAGE],
            page=PAGE,
            n=len(inside),
            right=sum(row.guess == row.next for row in inside),
            worst=max(inside, key=lambda row: float(costs[row.t])) if inside else None,
        )
