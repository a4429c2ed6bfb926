"""Every score's slope at once: predicted minus actual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.parts.math_aim import Aim, aim
from app.render import charts


class Settings(base.Settings):
    """How many of the other words are listed."""

    words: int = Field(8, ge=1, le=40)


@dataclass(frozen=True)
class Row:
    """A word: what was predicted, what was right, and the slope of its score."""

    token: Markup
    probability: str
    right: int
    slope: str
    bar: Markup


@dataclass(frozen=True)
class View:
    aim: Aim
    rows: list[Row]
    others: str
    rest: str
    n_rest: int


def view(scene: Scene, s: Settings) -> View:
    run, goal = scene.run, aim(scene.run)
    slopes = run.gradient("logits")[goal.t].numpy()
    tokens = largest_slopes(slopes, goal, s.words)
    most = float(np.abs(slopes).max())
    rows = [
        Row(
            scene.num.token(token), f"probs[{goal.t},{token}]", int(token == goal.token),
            f"logits[{goal.t},{token}].grad", charts.signed_bar(float(slopes[token]), most, 128),
        )
        for token in tokens
    ]  # fmt: skip
    listed = "+".join(row.slope for row in rows)
    others = f"sum({goal.slopes})-{goal.logit}.grad"
    return View(goal, rows, others, f"sum({goal.slopes})-({listed})", len(slopes) - len(rows))


def largest_slopes(slopes: np.ndarray[tuple[int, ...], np.dtype[np.float32]], goal: Aim, n: int) -> list[int]:
    """The right word first, then the n others with the largest slopes."""
    order = [int(token) for token in np.argsort(-np.abs(slopes), kind="stable")[: n + 1]]
    return [goal.token, *[token for token in order if token != goal.token][:n]]


PART = Part(
    "math_slopes", "Every slope at once", Settings, view, home="math#every-slope", rem=28,
    about="The slope of the loss along each score: what the model predicted, minus what was right.",
)  # fmt: skip
