"""Add a constant to every score: the probabilities stay."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.parts.expressions import softmax, written

LIMIT = 50.0

Score = Annotated[float, Field(ge=-LIMIT, le=LIMIT)]

EXACT = {0.6931: "log(2)", 1.0986: "log(3)"}  # rounded to four places they mean themselves


@live_part("Add a constant", home="transformer#probabilities", rem=20)
class Shift(Settings):
    """Add the same number to every score and see that no probability moves."""

    a: Score = 0.0
    b: Score = 0.6931
    c: Score = 1.0986
    add: Score = 2.0

    def view(self, scene: Scene) -> View:
        """Expressions: each score and its share, before and after."""
        before = [EXACT.get(z, written(z)) for z in (self.a, self.b, self.c)]
        after = [f"({z}+{written(self.add)})" for z in before]
        shares = zip(softmax(before), softmax(after), strict=True)
        return View(
            rows=[list(zip(scores, row, strict=True)) for *scores, row in zip(before, after, shares, strict=True)],
            totals=["+".join(f"exp({z})" for z in scores) for scores in (before, after)],
            factor=f"exp({written(self.add)})",
        )
