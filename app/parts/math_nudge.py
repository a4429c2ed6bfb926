"""A derivative by hand: nudge the right word's score by h, run the network on, and see how the loss changes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.panels.why.numbers import exact
from app.parts import base
from app.parts.base import Numbers, Part, Scene
from app.parts.math_aim import Aim, aim
from app.render import numbers, plot
from model import Run

LEFT, RIGHT, TOP, BOTTOM = 46.0, 384.0, 14.0, 168.0
REACH = 4.0
SHRINKING = (1.0, 0.1, 0.01, 0.001)


class Settings(base.Settings):
    """The nudge."""

    h: float = Field(2.0, ge=0.01, le=REACH)


@dataclass(frozen=True)
class Nudge:
    """An h, and expressions of the secant's slope and of how far it is from the exact one."""

    h: float
    secant: str
    off: str


@dataclass(frozen=True)
class View:
    """`nudged` is the loss of a run with that score really set, as a link to it; `lower` whether it is below."""

    aim: Aim
    picture: Markup
    h: str
    nudged: Markup
    lower: bool
    secant: str
    slope: str
    by_hand: str
    shrinking: list[Nudge]
    closer: bool


def view(scene: Scene, s: Settings) -> View:
    run, goal = scene.run, aim(scene.run)
    change = f"{goal.logit}+={s.h:g}"
    nudged = float(run.changed([change]).tensor("loss"))
    where = Numbers(run, scene.state.replace(changes=(change,)))
    slope = float(run.values(f"{goal.logit}.grad"))
    shrinking = [
        Nudge(h, secant(goal, h), f"{secant(goal, h)}-{goal.logit}.grad") for h in dict.fromkeys((s.h, *SHRINKING))
        if h <= s.h
    ]  # fmt: skip
    off = [abs(float(run.values(f"calc({one.off})"))) for one in shrinking]
    return View(
        goal, drawn(run, goal, s.h, slope), f"{s.h:g}",
        Markup('<a class="num live" href="{}" data-hx-boost="false"{}>{}</a>').format(
            where.in_explorer("loss"), Markup(' target="_blank"' if scene.state.is_framed else ""), exact(nudged)
        ),
        nudged < float(run.tensor("loss")), secant(goal, s.h), f"{goal.logit}.grad",
        by_hand(goal), shrinking, off[-1] <= off[0],
    )  # fmt: skip


def secant(goal: Aim, h: float) -> str:
    """(loss(z + h) − loss(z))/h: the total of the exponentials grows by the factor 1 + p(eʰ − 1), the score by h."""
    found = f"(log(1+{goal.probability}*(exp({h:g})-1))-{h:g})/{h:g}"
    return f"{found}/{goal.n}" if goal.n > 1 else found


def by_hand(goal: Aim) -> str:
    """p − 1."""
    return f"({goal.probability}-1)/{goal.n}" if goal.n > 1 else f"{goal.probability}-1"


def losses(run: Run, goal: Aim, moves: list[float]) -> list[float]:
    """The loss with the right word's score moved by each amount."""
    z = run.tensor("logits")[goal.t].numpy().astype(np.float64)
    own, others = float(z[goal.token]), np.delete(z, goal.token)
    rest = float(np.logaddexp.reduce(others)) if others.size else -math.inf
    here, loss = float(np.logaddexp(rest, own)) - own, float(run.tensor("loss"))
    return [loss + (float(np.logaddexp(rest, own + by)) - own - by - here) / goal.n for by in moves]


def drawn(run: Run, goal: Aim, h: float, slope: float) -> Markup:
    """The real loss around the score as it is, the tangent there and the secant to the nudged score."""
    moves = [float(by) for by in np.linspace(-REACH, REACH, 81)]
    heights = losses(run, goal, moves)
    start, end = losses(run, goal, [0.0, h])
    rise = numbers.brief((end - start) / h)
    x, y = plot.Scale(-REACH, REACH, LEFT, RIGHT), plot.Scale(min(0.0, *heights), max(heights), BOTTOM, TOP)

    def line(css: str, through: float, rise: float) -> str:
        """A straight line through (0, start), cut off at the frame."""
        ends = [by for by in moves if y.low <= start + rise * by <= y.high] or [0.0]
        pair = (min(*ends, through), max(*ends, through))
        return f'<path class="{css}" d="M{"L".join(plot.point(x(by), y(start + rise * by)) for by in pair)}"/>'

    parts = [
        f'<path class="{"grid-line" if tick else "axis"}" d="M{LEFT:g} {y(tick):.1f}H{RIGHT:g}"/>'
        f'<text x="{LEFT - 6:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{numbers.tick_text(tick)}</text>'
        for tick in plot.ticks(y.low, y.high, 4)
    ]
    for by in (-4, -2, 0, 2, 4):
        text = "z" if by == 0 else f"z {'+' if by > 0 else '−'} {abs(by)}"
        parts.append(f'<text x="{x(by):.1f}" y="{BOTTOM + 17:g}" text-anchor="middle">{text}</text>')
    d = "M" + "L".join(plot.point(x(by), y(height)) for by, height in zip(moves, heights, strict=True))
    parts += [
        f'<path class="total" d="{d}"/>', line("tangent", 0.0, slope), line("secant", h, (end - start) / h),
        f'<path class="guide" d="M{x(h):.1f} {BOTTOM:g}V{y(end):.1f}"/>',
        f'<circle class="dot first" cx="{x(0):.1f}" cy="{y(start):.1f}" r="4"/>',
        f'<circle class="end" cx="{x(h):.1f}" cy="{y(end):.1f}" r="4"/>',
        f'<text class="key-tangent" x="{RIGHT:g}" y="24" text-anchor="end">tangent: {numbers.brief(slope)}</text>',
        f'<text class="key-secant" x="{RIGHT:g}" y="42" text-anchor="end">secant: {rise}</text>',
    ]  # fmt: skip
    return plot.drawing("".join(parts), 194, f"The loss as the score moves, its tangent, and a secant over h = {h:g}")


PART = Part(
    "math_nudge", "Nudge a score", Settings, view, home="math#nudge", rem=40,
    about="Move the right word’s score by h, and watch the secant turn into the tangent as h shrinks.",
)  # fmt: skip
