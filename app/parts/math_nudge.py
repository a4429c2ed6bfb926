"""A derivative by hand: nudge the right word's score by h, run the network on, and see how the loss changes."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts.aim import Aim, aim
from app.parts.base import Scene, Settings, View, live_part
from app.parts.numbers import Numbers
from app.render import numbers
from app.render.numbers import exact
from app.render.plot import Plot, Scale
from model import Run

LEFT, RIGHT, TOP, BOTTOM = 46.0, 384.0, 14.0, 168.0
REACH = 4.0
SHRINKING = (1.0, 0.1, 0.01, 0.001)


@live_part("Nudge a score", home="math#nudge", rem=40)
class Nudge(Settings):
    """Move the right word’s score by h, and watch the secant turn into the tangent as h shrinks."""

    h: float = Field(2.0, ge=0.01, le=REACH)

    def view(self, scene: Scene) -> View:
        """`nudged` is the loss of a run with that score really set, `url` leads to it; `lower` whether it is below."""
        run, goal = scene.run, aim(scene.run)
        change = f"{goal.logit}+={self.h:g}"
        nudged = float(run.changed([change]).tensor("loss"))
        slope = float(run.values(f"{goal.logit}.grad"))
        shrinking = [(h, secant(goal, h)) for h in dict.fromkeys((self.h, *SHRINKING)) if h <= self.h]
        off = [abs(float(run.values(f"calc({slope_to_h}-{goal.logit}.grad)"))) for _, slope_to_h in shrinking]
        return View(
            aim=goal,
            picture=drawn(run, goal, self.h, slope),
            nudged=exact(nudged),
            url=Numbers(run, scene.state.replace(changes=(change,))).in_explorer("loss"),
            lower=nudged < float(run.tensor("loss")),
            secant=secant(goal, self.h),
            by_hand=f"({goal.probability}-1)/{goal.n}" if goal.n > 1 else f"{goal.probability}-1",
            shrinking=shrinking,
            closer=off[-1] <= off[0],
        )


def secant(goal: Aim, h: float) -> str:
    """(loss(z + h) − loss(z))/h: the total of the exponentials grows by the factor 1 + p(eʰ − 1), the score by h."""
    slope = f"(log(1+{goal.probability}*(exp({h:g})-1))-{h:g})/{h:g}"
    return f"{slope}/{goal.n}" if goal.n > 1 else slope


def losses(run: Run, goal: Aim, moves: list[float]) -> list[float]:
    """The loss with the right word's score moved by each amount."""
    z = run.tensor("logits")[goal.t].numpy().astype(np.float64)
    score, others = float(z[goal.token]), np.delete(z, goal.token)
    rest = float(np.logaddexp.reduce(others)) if others.size else -math.inf
    here, loss = float(np.logaddexp(rest, score)) - score, float(run.tensor("loss"))
    return [loss + (float(np.logaddexp(rest, score + by)) - score - by - here) / goal.n for by in moves]


def drawn(run: Run, goal: Aim, h: float, slope: float) -> Markup:
    """The real loss around the score as it is, the tangent there and the secant to the nudged score."""
    moves = [float(by) for by in np.linspace(-REACH, REACH, 81)]
    heights = losses(run, goal, moves)
    start, end = losses(run, goal, [0.0, h])
    secant = (end - start) / h
    plot = Plot(Scale(-REACH, REACH, LEFT, RIGHT), Scale(min(0.0, *heights), max(heights), BOTTOM, TOP))

    def line(css: str, through: float, rise: float) -> None:
        """A straight line through (0, start), cut off at the frame."""
        ends = [by for by in moves if plot.y.low <= start + rise * by <= plot.y.high] or [0.0]
        pair = (min(*ends, through), max(*ends, through))
        plot.curve(css, pair, [start + rise * by for by in pair])

    plot.rows(plot.y.ticks(), zero="axis")
    plot.feet((-4, -2, 0, 2, 4), lambda by: f"z {'+' if by > 0 else '−'} {abs(by):g}" if by else "z")
    plot.curve("total", moves, heights)
    line("tangent", 0.0, slope)
    line("secant", h, secant)
    plot.guide(h, end)
    plot.dot("dot first", 0, start)
    plot.dot("end", h, end)
    plot.text(f"tangent: {numbers.brief(slope)}", RIGHT, 24, css="key-tangent", anchor="end")
    plot.text(f"secant: {numbers.brief(secant)}", RIGHT, 42, css="key-secant", anchor="end")
    return plot.svg(194, f"The loss as the score moves, its tangent, and a secant over h = {h:g}")
