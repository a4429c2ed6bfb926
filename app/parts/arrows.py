"""Two arrows in the plane: their dot product, their lengths, the angle between them."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.parts.expressions import written
from app.parts.plane import Plane

REACH = 4.0

Coordinate = Annotated[float, Field(ge=-REACH, le=REACH)]


@live_part("Two arrows", home="transformer#same-direction", rem=32)
class Arrows(Settings):
    """Move two arrows and watch their dot product, their lengths and the angle between them."""

    ax: Coordinate = 3.0
    ay: Coordinate = 1.0
    bx: Coordinate = 2.0
    by: Coordinate = 2.5

    def view(self, scene: Scene) -> View:
        """`degrees` is None where an arrow has no length."""
        ax, ay, bx, by = (written(x) for x in (self.ax, self.ay, self.bx, self.by))
        dot, la, lb = f"{ax}*{bx}+{ay}*{by}", f"sqrt({ax}*{ax}+{ay}*{ay})", f"sqrt({bx}*{bx}+{by}*{by})"
        cos, plane = f"({dot})/({la}*{lb})", Plane(320, REACH, margin=10)
        return View(
            dot=dot,
            la=la,
            lb=lb,
            cos=cos,
            angle=f"acos({cos})*180/{math.pi}",
            degrees=self.degrees(),
            a=plane(self.ax, self.ay),
            b=plane(self.bx, self.by),
            side=plane.side,
            lines=[plane(n, 0)[0] for n in range(-int(REACH), int(REACH) + 1)],
        )

    def degrees(self) -> float | None:
        """The angle between the arrows."""
        lengths = math.hypot(self.ax, self.ay) * math.hypot(self.bx, self.by)
        if lengths == 0:
            return None
        return math.degrees(math.acos(max(-1.0, min(1.0, (self.ax * self.bx + self.ay * self.by) / lengths))))
