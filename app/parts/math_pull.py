"""∂L/∂h as a sum over the vocabulary: every word's row times how much that word was overrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.parts.math_aim import Aim, aim
from app.parts.math_slopes import largest_slopes
from app.render import heat
from model.errors import SettingError

COLUMNS = 5
WORDS = 6


class Settings(base.Settings):
    """The first entry shown of each row."""

    start: int = Field(0, ge=0)


@dataclass(frozen=True)
class Row:
    """A word: its weight p − y, its weighted row as a picture, some entries of that, and how its score would move."""

    token: Markup
    slope: str
    picture: Markup
    entries: list[str]
    move: str


@dataclass(frozen=True)
class View:
    """`rest` and `total` are entries of the other words together and of all. `rises`: the right score would."""

    aim: Aim
    columns: list[int]
    rows: list[Row]
    n_rest: int
    rest: list[str]
    rest_picture: Markup
    total: list[str]
    total_picture: Markup
    rises: bool
    leads: bool
    move: str
    earlier: int | None
    later: int | None
    d: int


def view(scene: Scene, s: Settings) -> View:
    run, goal, d = scene.run, aim(scene.run), scene.model.config.d_model
    if s.start >= d:
        raise SettingError("start", f"There is no entry {s.start}: a row has 0 to {d - 1}.", "Write start=0.")
    columns = list(range(s.start, min(d, s.start + COLUMNS)))
    slopes = run.gradient("logits")[goal.t].numpy()
    tokens = largest_slopes(slopes, goal, WORDS - 1)
    table, whole = scene.model.parameter("W_E").numpy(), run.gradient("ln_final.out")[goal.t].numpy()
    weighted = slopes[tokens, None] * table[tokens]
    rest = whole - weighted.sum(0)
    scale = heat.Scale(float(np.abs(np.vstack([weighted, rest, whole])).max()))

    def picture(row: np.ndarray[tuple[int, ...], np.dtype[np.float32]], name: str) -> Markup:
        return heat.picture(scale.steps(row[None]), f"pull-{name}")

    rows = [
        Row(
            scene.num.token(v), f"logits[{goal.t},{v}].grad", picture(weighted[n], str(n)),
            [part(goal, v, i) for i in columns], moved(goal, v),
        )
        for n, v in enumerate(tokens)
    ]  # fmt: skip
    total = [f"ln_final.out[{goal.t},{i}].grad" for i in columns]
    left = [f"{at}-({'+'.join(part(goal, v, i) for v in tokens)})" for i, at in zip(columns, total, strict=True)]
    moves = -(table @ whole)
    return View(
        goal, columns, rows, len(slopes) - len(rows), left, picture(rest, "rest"), total, picture(whole, "all"),
        bool(moves[goal.token] > 0), bool(moves[goal.token] >= moves.max()), moved(goal, goal.token),
        max(s.start - COLUMNS, 0) if s.start else None,
        s.start + COLUMNS if s.start + COLUMNS < d else None, d,
    )  # fmt: skip


def part(goal: Aim, token: int, i: int) -> str:
    """One word's share in entry i."""
    return f"logits[{goal.t},{token}].grad*W_E[{token},{i}]"


def moved(goal: Aim, token: int) -> str:
    """How fast a word's score grows as h moves against the slope."""
    return f"0-sum(W_E[{token},:]*ln_final.out[{goal.t},:].grad)"


PART = Part(
    "math_pull", "A pull from every word", Settings, view, home="math#pull", rem=28,
    about="The slope along the last row as a sum: each word’s row, weighted by how much it was overrated.",
)  # fmt: skip
