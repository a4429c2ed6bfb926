"""Two arrows in the plane: their dot product, their lengths, the angle between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene

SIDE = 320  # pixels of the picture, which shows −REACH … REACH both ways
REACH = 4.0


class Settings(base.Settings):
    """The arrows' ends."""

    ax: float = Field(3.0, ge=-REACH, le=REACH)
    ay: float = Field(1.0, ge=-REACH, le=REACH)
    bx: float = Field(2.0, ge=-REACH, le=REACH)
    by: float = Field(2.5, ge=-REACH, le=REACH)


@dataclass(frozen=True)
class View:
    """`dot`, `la`, `lb`, `cos` are expressions, and `angle`, in degrees; "" where an arrow has no length."""

    dot: str
    la: str
    lb: str
    cos: str
    angle: str
    says: str
    a: tuple[float, float]
    b: tuple[float, float]
    side: int
    lines: tuple[float, ...]


def view(scene: Scene, s: Settings) -> View:
    ax, ay, bx, by = (_written(x) for x in (s.ax, s.ay, s.bx, s.by))
    dot, la, lb = f"{ax}*{bx}+{ay}*{by}", f"sqrt({ax}*{ax}+{ay}*{ay})", f"sqrt({bx}*{bx}+{by}*{by})"
    degrees, cos = angle(s), f"({dot})/({la}*{lb})"
    return View(
        dot=dot, la=la, lb=lb, cos=cos, angle=f"acos({cos})*180/{math.pi}" if degrees is not None else "",
        says=in_words(degrees),
        a=_place(s.ax, s.ay), b=_place(s.bx, s.by), side=SIDE,
        lines=tuple(_place(n, 0)[0] for n in range(-int(REACH), int(REACH) + 1)),
    )  # fmt: skip


def angle(s: Settings) -> float | None:
    """Between the arrows, in degrees; None where one of them has no length."""
    lengths = math.hypot(s.ax, s.ay) * math.hypot(s.bx, s.by)
    if lengths == 0:
        return None
    return math.degrees(math.acos(max(-1.0, min(1.0, (s.ax * s.bx + s.ay * s.by) / lengths))))


def in_words(degrees: float | None) -> str:
    if degrees is None:
        return "An arrow without length points nowhere: the dot product is 0 and there is no angle."
    if degrees < 0.5:
        return "They point the same way: the dot product is the product of the lengths, as large as it gets."
    if degrees < 89.5:
        return "They lean the same way, so the dot product is positive."
    if degrees <= 90.5:
        return "They stand at right angles: what one adds in one direction the other cancels, and the dot product is 0."
    if degrees < 179.5:
        return "They lean apart, so the dot product is negative."
    return "They point opposite ways: the dot product is as far below zero as it gets."


def _written(x: float) -> str:
    """A number inside an expression."""
    return f"({x:g})" if x < 0 else f"{x:g}"


def _place(x: float, y: float) -> tuple[float, float]:
    half = SIDE / 2
    return round(half + x / REACH * (half - 10), 1), round(half - y / REACH * (half - 10), 1)


PART = Part(
    "arrows", "Two arrows", Settings, view, home="transformer#same-direction", rem=32,
    about="Move two arrows and watch their dot product, their lengths and the angle between them.",
)  # fmt: skip
