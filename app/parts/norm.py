"""LayerNorm of four numbers of the reader's own, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene

LIMIT = 1e6
EPS = "0.00001"


class Settings(base.Settings):
    """Four numbers."""

    a: float = Field(1.0, ge=-LIMIT, le=LIMIT)
    b: float = Field(2.0, ge=-LIMIT, le=LIMIT)
    c: float = Field(3.0, ge=-LIMIT, le=LIMIT)
    d: float = Field(6.0, ge=-LIMIT, le=LIMIT)


@dataclass(frozen=True)
class View:
    """Everything as expressions over the four numbers. `flat` says that all four are equal."""

    numbers: list[str]
    deviations: list[str]
    squares: list[str]
    normalized: list[str]
    mean: str
    variance: str
    deviation: str
    flat: bool


def view(scene: Scene, s: Settings) -> View:
    return steps(s)


def steps(s: Settings) -> View:
    values = (s.a, s.b, s.c, s.d)
    x = [f"({v:.10g})" if v < 0 else f"{v:.10g}" for v in values]
    mean = f"({'+'.join(x)})/4"
    deviations = [f"{v}-{mean}" for v in x]
    squares = [f"({v})*({v})" for v in deviations]
    variance = f"({'+'.join(squares)})/4"
    deviation = f"sqrt({variance}+{EPS})"
    return View(
        x, deviations, squares, [f"({v})/{deviation}" for v in deviations], mean, variance, deviation,
        len(set(values)) == 1,
    )  # fmt: skip


PART = Part(
    "norm", "Normalise four numbers", Settings, view, home="transformer#normalise", rem=20,
    about="Type four numbers and watch LayerNorm work on them, step by step.",
)  # fmt: skip
