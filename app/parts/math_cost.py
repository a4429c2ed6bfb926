"""The curve −log p: what the right answer costs, and what another answer would have cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from pydantic import Field

from app.panels.sentence import writable
from app.parts import base
from app.parts.base import Part, Scene
from app.parts.math_aim import Aim, aim, cost
from app.render import numbers, plot

LEFT, RIGHT, TOP, BOTTOM = 40.0, 384.0, 14.0, 158.0
OTHERS = 6


class Settings(base.Settings):
    """Another answer to weigh: one token, or `id:17`. Left out: the likeliest that is not the right one."""

    answer: str = Field("", max_length=100)


@dataclass(frozen=True)
class Answer:
    """A token as the right answer: its probability and what it would cost; `write` is how to ask for it."""

    token: int
    shown: Markup
    probability: str
    cost: str
    write: str
    is_right: bool
    is_other: bool


@dataclass(frozen=True)
class View:
    aim: Aim
    picture: Markup
    answers: list[Answer]
    right: Answer
    other: Answer
    dearer: bool


def view(scene: Scene, s: Settings) -> View:
    run, goal = scene.run, aim(scene.run)
    best = [token for token, _ in run.top(OTHERS, goal.t)]
    asked = scene.model.target_id(s.answer) if s.answer else None
    other = asked if asked is not None else next(token for token in best if token != goal.token)
    p = run.tensor("probs")[goal.t].numpy().astype(np.float64)
    logs = run.tensor("log_probs")[goal.t].numpy().astype(np.float64)
    listed = sorted(dict.fromkeys([*best, goal.token, other]), key=lambda token: -p[token])
    answers = [
        Answer(
            token, scene.num.token(token), f"probs[{goal.t},{token}]", cost(run, goal.t, token),
            writable(scene.model, token), token == goal.token, token == other,
        )
        for token in listed
    ]  # fmt: skip
    right, another = (next(one for one in answers if one.token == token) for token in (goal.token, other))
    points = [(one, float(p[one.token]), -float(logs[one.token])) for one in (right, another)]
    return View(goal, drawn(scene, points), answers, right, another, p[other] < p[goal.token])


def drawn(scene: Scene, points: list[tuple[Answer, float, float]]) -> Markup:
    """The curve over p from 0 to 1, with the right answer and the other one on it."""
    highest = max(6.0, *(height * 1.08 for _, _, height in points if math.isfinite(height)))
    x, y = plot.Scale(0, 1, LEFT, RIGHT), plot.Scale(0, highest, BOTTOM, TOP)
    ps = np.exp(-np.concatenate([np.linspace(highest, 1, 50), np.linspace(0.98, 0, 50)]))
    d = "M" + "L".join(plot.point(x(float(p)), y(-math.log(p))) for p in ps)
    parts = [
        f'<path class="{"grid-line" if tick else "axis"}" d="M{LEFT:g} {y(tick):.1f}H{RIGHT:g}"/>'
        f'<text x="{LEFT - 6:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{numbers.tick_text(tick)}</text>'
        for tick in plot.ticks(0, highest, 4)
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<text x="{x(tick):.1f}" y="{BOTTOM + 17:g}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<text x="{RIGHT:g}" y="{BOTTOM + 32:g}" text-anchor="end">p of the right answer</text>')
    parts.append(f'<path class="total" d="{d}"/>')
    heights = [y(min(height, highest)) for _, _, height in points]
    close = abs(heights[0] - heights[1]) < 15 and abs(x(points[0][1]) - x(points[1][1])) < 120
    for n, ((one, p, height), at) in enumerate(zip(points, heights, strict=True)):
        css = "end" if n == 0 else "other"
        side, dx = ("end", -9) if p > 0.6 else ("start", 9)
        lift = (-38 if close and n else -24) if p > 0.6 else -9 if not close else -2 if at <= min(heights) else 12
        name = scene.model.tokenizer.show(one.token)
        parts.append(
            f'<circle class="{css}" cx="{x(p):.1f}" cy="{at:.1f}" r="4"/>'
            f'<text class="{css}" x="{x(p) + dx:.1f}" y="{max(at + lift, 22):.1f}" '
            f'text-anchor="{side}">{escape(name)}: {numbers.brief(height)}</text>'
        )
    return plot.drawing("".join(parts), 196, "The curve −log p with the right answer and another one on it")


PART = Part(
    "math_cost", "The cost of an answer", Settings, view, home="math#loss", rem=36,
    about="The curve −log p with your target on it, and what the loss would be had another token been right.",
)  # fmt: skip
