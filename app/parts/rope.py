"""RoPE in the plane: a query and a key turned by an angle for each position; only their distance counts."""

from __future__ import annotations

import math

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.parts.plane import Plane

QUERY, KEY = (2.0, 1.0), (1.5, -1.0)  # before they are turned
MOST = 30


@live_part("Turning instead of adding", home="transformer#where", rem=28, turn=1)
class Rope(Settings):
    """Move a query and a key along the text: while their distance stays, so does their dot product."""

    i: int = Field(7, ge=0, le=MOST)
    j: int = Field(3, ge=0, le=MOST)
    angle: float = Field(20.0, ge=0, le=180)  # for one position, in degrees

    def view(self, scene: Scene) -> View:
        """`same` are places of query and key as far apart as those set, `other` are not: i, j, their dot product."""
        step = math.radians(self.angle)
        lowest, plane = min(self.i, self.j), Plane(280, reach=3.0, margin=8)
        same = [(self.i - lowest + n, self.j - lowest + n) for n in sorted({0, lowest, lowest + 5, lowest + 10})]
        other = [(self.i + 1, self.j), (self.i, self.j + 1)]
        return View(
            q=plane(*turned(QUERY, self.i * step)),
            k=plane(*turned(KEY, self.j * step)),
            q0=plane(*QUERY),
            k0=plane(*KEY),
            q_at=entries(QUERY, self.i * step),
            k_at=entries(KEY, self.j * step),
            same=[(i, j, dot(i, j, step)) for i, j in same],
            other=[(i, j, dot(i, j, step)) for i, j in other],
            side=plane.side,
        )


def turned(v: tuple[float, float], by: float) -> tuple[float, float]:
    c, s = math.cos(by), math.sin(by)
    return v[0] * c - v[1] * s, v[0] * s + v[1] * c


def entries(v: tuple[float, float], by: float) -> tuple[str, str]:
    """The turned arrow's two numbers as expressions: x cos − y sin, x sin + y cos."""
    c, s, x, y = (precise(n) for n in (math.cos(by), math.sin(by), *v))
    return f"{x}*{c}-{y}*{s}", f"{x}*{s}+{y}*{c}"


def dot(i: int, j: int, step: float) -> str:
    (qx, qy), (kx, ky) = entries(QUERY, i * step), entries(KEY, j * step)
    return f"({qx})*({kx})+({qy})*({ky})"


def precise(x: float) -> str:
    """A number inside an expression, to twelve decimals."""
    text = f"{x:.12f}".rstrip("0").rstrip(".")
    return f"({text})" if text.startswith("-") else text
