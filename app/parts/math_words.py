"""A score for every word of the vocabulary, and what happens to the probabilities when all scores are shifted."""

from __future__ import annotations

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.parts.expressions import written

TOP = 8


@live_part("A score for every word", home="math#scores", rem=28)
class Words(Settings):
    """The largest scores, their gaps, and the probabilities they make. Add a constant to all: nothing moves."""

    add: float = Field(0.0, ge=-50, le=50)

    def view(self, scene: Scene) -> View:
        """Of each word expressions: the shifted score, its distance to the first one, and e to that distance."""
        run, t = scene.run, scene.last
        best = run.top(TOP)
        if not run.is_sequence and run.target not in dict(best):
            best.append((run.target, float(run.tensor("probs")[t, run.target])))
        first, second = (f"logits[{t},{token}]" for token, _ in best[:2])
        by = f"+{written(self.add)}" if self.add else ""

        def gap(token: int | str) -> str:
            return f"(logits[{t},{token}]{by})-({first}{by})"

        every = f"exp({gap(':')})"
        return View(
            words=[
                View(token=token, moved=f"logits[{t},{token}]{by}", gap=gap(token), raised=f"exp({gap(token)})", p=p)
                for token, p in best
            ],
            every=every,
            total=f"sum({every})",
            t=t,
            gap=f"{first}-{second}",
            target=None if run.is_sequence else run.target,
        )
