"""The activation between the two matrices: ReLU and GELU at any x."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.parts.expressions import written
from app.render.plot import Plot, Scale

REACH = 4.0


@live_part("Two ways to bend", home="transformer#bend")
class Activation(Settings):
    """ReLU and GELU as curves, read at any x."""

    x: float = Field(1.0, ge=-REACH, le=REACH)

    def view(self, scene: Scene) -> View:
        x = written(self.x)
        inner = f"sqrt(2/{math.pi:.15g})*({x}+0.044715*{x}*{x}*{x})"
        return View(picture=picture(self.x), relu=f"({x}+sqrt({x}*{x}))/2", gelu=f"{x}/(1+exp(-2*{inner}))")


def relu(x: float) -> float:
    return max(0.0, x)


def gelu(x: float) -> float:
    """The tanh form, as GPT-2 computes it."""
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def picture(at: float) -> Markup:
    """Both curves, with the place x marked on each."""
    plot = Plot(Scale(-REACH, REACH, 30, 390), Scale(-0.7, REACH, 172, 12))
    columns = (-4, -2, 2, 4)
    for x in columns:
        plot.guide(x, REACH, "grid-line")
    plot.feet(columns, below=16)
    plot.rows((2, 4))
    plot.across("axis", 0)
    plot.guide(0, REACH, "axis")
    xs = np.linspace(-REACH, REACH, 65).tolist()
    plot.curve("second", xs, map(relu, xs))
    plot.curve("first", xs, map(gelu, xs))
    plot.guide(at, max(relu(at), gelu(at)))
    plot.dot("dot second", at, relu(at))
    plot.dot("dot first", at, gelu(at))
    plot.text("GELU", 44, 28, css="key-first")
    plot.text("ReLU, dashed", 44, 46, css="key-second")
    return plot.svg(194, f"ReLU and GELU from −4 to 4, read at {at:g}")
