"""LayerNorm of four numbers of the reader's own, step by step."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part

LIMIT = 1e6
EPS = "0.00001"

Number = Annotated[float, Field(ge=-LIMIT, le=LIMIT)]


@live_part("Normalise four numbers", home="transformer#normalise", rem=20)
class Norm(Settings):
    """Type four numbers and watch LayerNorm work on them, step by step."""

    a: Number = 1.0
    b: Number = 2.0
    c: Number = 3.0
    d: Number = 6.0

    def view(self, scene: Scene) -> View:
        """Everything as expressions over the four numbers. `flat` says that all four are equal."""
        values = (self.a, self.b, self.c, self.d)
        x = [f"({v:.10g})" if v < 0 else f"{v:.10g}" for v in values]
        mean = f"({'+'.join(x)})/4"
        deviations = [f"{v}-{mean}" for v in x]
        squares = [f"({v})*({v})" for v in deviations]
        variance = f"({'+'.join(squares)})/4"
        deviation = f"sqrt({variance}+{EPS})"
        return View(
            numbers=x,
            deviations=deviations,
            squares=squares,
            normalized=[f"({v})/{deviation}" for v in deviations],
            mean=mean,
            variance=variance,
            deviation=deviation,
            flat=len(set(values)) == 1,
        )
