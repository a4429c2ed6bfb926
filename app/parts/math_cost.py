"""The curve −log p: what the right answer costs, and what another answer would have cost."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.panels.sentence import writable
from app.parts.aim import Aim, aim, cost
from app.parts.base import Scene, Settings, View, live_part
from app.render import numbers
from app.render.plot import Plot, Scale

LEFT, RIGHT, TOP, BOTTOM = 40.0, 384.0, 14.0, 158.0
OTHERS = 6


@live_part("The cost of an answer", home="math#loss", rem=36)
class Cost(Settings):
    """The curve −log p with your target on it, and what the loss would be had another token been right."""

    # Another answer to weigh: one token, or `id:17`. Left out: the likeliest that is not the right one.
    answer: str = Field("", max_length=100)

    def view(self, scene: Scene) -> View:
        run, goal = scene.run, aim(scene.run)
        best = [token for token, _ in run.top(OTHERS, goal.t)]
        asked = scene.model.target_id(self.answer) if self.answer else None
        other = asked if asked is not None else next(token for token in best if token != goal.token)
        p = run.tensor("probs")[goal.t].numpy().astype(np.float64)
        logs = run.tensor("log_probs")[goal.t].numpy().astype(np.float64)
        listed = sorted(dict.fromkeys([*best, goal.token, other]), key=lambda token: -p[token])
        answers = {token: answer(scene, goal, token) for token in listed}
        points = [(token, float(p[token]), -float(logs[token])) for token in (goal.token, other)]
        return View(
            picture=drawn(scene, points),
            answers=answers.values(),
            right=answers[goal.token],
            other=answers[other],
            dearer=p[other] < p[goal.token],
        )


def answer(scene: Scene, goal: Aim, token: int) -> View:
    """A token as the right answer: its probability and what it would cost; `write` is how to ask for it."""
    return View(
        token=token,
        probability=f"probs[{goal.t},{token}]",
        cost=cost(scene.run, goal.t, token),
        write=writable(scene.model, token),
        is_right=token == goal.token,
    )


def drawn(scene: Scene, points: list[tuple[int, float, float]]) -> Markup:
    """The curve over p from 0 to 1, with the right answer and the other one on it."""
    highest = max(6.0, *(height * 1.08 for _, _, height in points if math.isfinite(height)))
    plot = Plot(Scale(0, 1, LEFT, RIGHT), Scale(0, highest, BOTTOM, TOP))
    plot.rows(plot.y.ticks(), zero="axis")
    plot.feet((0, 0.25, 0.5, 0.75, 1))
    plot.text("p of the right answer", RIGHT, BOTTOM + 32, anchor="end")
    ps = np.exp(-np.concatenate([np.linspace(highest, 1, 50), np.linspace(0.98, 0, 50)]))
    plot.curve("total", ps, -np.log(ps))
    at = [(plot.x(p), plot.y(min(height, highest))) for _, p, height in points]
    close = abs(at[0][1] - at[1][1]) < 15 and abs(at[0][0] - at[1][0]) < 120
    upper = min(at[0][1], at[1][1])
    for n, ((token, p, height), (x, y)) in enumerate(zip(points, at, strict=True)):
        css = "end" if n == 0 else "other"
        side, dx = ("end", -9) if p > 0.6 else ("start", 9)
        lift = (-38 if close and n else -24) if p > 0.6 else -9 if not close else -2 if y <= upper else 12
        plot.dot(css, p, min(height, highest))
        name = f"{scene.model.tokenizer.show(token)}: {numbers.brief(height)}"
        plot.text(name, x + dx, max(y + lift, 22), css=css, anchor=side)
    return plot.svg(196, "The curve −log p with the right answer and another one on it")
