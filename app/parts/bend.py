"""The bend between the two matrices: ReLU and GELU at any x."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.render import numbers, plot

REACH = 4.0


class Settings(base.Settings):
    """Where the curves are read."""

    x: float = Field(1.0, ge=-REACH, le=REACH)


@dataclass(frozen=True)
class View:
    """`relu` and `gelu` are expressions; `own` is the bend that the model uses."""

    picture: Markup
    relu: str
    gelu: str
    own: str


def view(scene: Scene, s: Settings) -> View:
    x = f"({s.x:g})" if s.x < 0 else f"{s.x:g}"
    inner = f"sqrt(2/{math.pi:.15g})*({x}+0.044715*{x}*{x}*{x})"
    return View(
        picture(s.x), f"({x}+sqrt({x}*{x}))/2", f"{x}/(1+exp(-2*{inner}))",
        "ReLU" if scene.model.config.act == "relu" else "GELU",
    )  # fmt: skip


def relu(x: float) -> float:
    return max(0.0, x)


def gelu(x: float) -> float:
    """The tanh form, as GPT-2 computes it."""
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def picture(at: float) -> Markup:
    """Both curves, with the place x marked on each."""
    x, y = plot.Scale(-REACH, REACH, 30, 390), plot.Scale(-0.7, REACH, 172, 12)
    marks = "".join(
        f'<path class="grid-line" d="M{x(t):.1f} 12V172"/>'
        f'<text x="{x(t):.1f}" y="188" text-anchor="middle">{numbers.tick_text(t)}</text>'
        for t in (-4, -2, 2, 4)
    ) + "".join(
        f'<path class="grid-line" d="M30 {y(t):.1f}H390"/><text x="24" y="{y(t) + 4:.1f}" text-anchor="end">{t}</text>'
        for t in (2, 4)
    )
    inside = (
        f'{marks}<path class="axis" d="M30 {y(0):.1f}H390M{x(0):.1f} 12V172"/>'
        f'<path class="second" d="{_line(relu, x, y)}"/><path class="first" d="{_line(gelu, x, y)}"/>'
        f'<path class="guide" d="M{x(at):.1f} 172V{min(y(relu(at)), y(gelu(at))):.1f}"/>'
        f'<circle class="dot second" cx="{x(at):.1f}" cy="{y(relu(at)):.1f}" r="4"/>'
        f'<circle class="dot first" cx="{x(at):.1f}" cy="{y(gelu(at)):.1f}" r="4"/>'
        f'<text class="key-first" x="44" y="28">GELU</text><text class="key-second" x="44" y="46">ReLU, dashed</text>'
    )
    return plot.drawing(inside, 194, f"ReLU and GELU from −4 to 4, read at {at:g}")


def _line(f: Callable[[float], float], x: plot.Scale, y: plot.Scale) -> str:
    return "M" + "L".join(plot.point(x(float(t)), y(f(float(t)))) for t in np.linspace(-REACH, REACH, 65))


PART = Part(
    "bend", "Two ways to bend", Settings, view, home="transformer#bend", rem=24,
    about="ReLU and GELU as curves, read at any x.",
)  # fmt: skip
