"""The sentence token by token: the product of the probabilities, and the sum of their costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.render import numbers
from model.errors import SettingError

PAGE = 40
NAMED = 3


class Settings(base.Settings):
    """The first position shown."""

    start: int = Field(0, ge=0)


@dataclass(frozen=True)
class Row:
    """The token that came after position `t`: its probability and cost, and product and sum up to here."""

    t: int
    token: Markup
    probability: str
    product: Markup
    cost: str
    sum: str
    width: float


@dataclass(frozen=True)
class View:
    """`worst` are the most surprising tokens, dearest first. `n` counts the predictions, 0 for a single token."""

    rows: list[Row]
    n: int
    product: Markup
    sum: str
    worst: list[Row]
    float32_dies: int | None
    earlier: int | None
    later: int | None


def view(scene: Scene, s: Settings) -> View:
    run, n = scene.run, scene.last
    if s.start > scene.last:
        raise SettingError("start", f"There is no position {s.start}: the last is {scene.last}.", "Write start=0.")
    costs = run.tensor("loss_per_token")[:n].numpy().astype(np.float64)
    totals = np.cumsum(costs)
    most = float(costs.max()) if n else 1.0
    rows = [
        Row(
            t, scene.num.at(t + 1), f"probs[{t},{run.tokens[t + 1]}]", product(scene, t + 1, float(totals[t])),
            f"loss_per_token[{t}]", sum_to(t + 1), round(100 * float(costs[t]) / (most or 1.0), 2),
        )
        for t in range(n)
    ]  # fmt: skip
    dies = np.flatnonzero(totals > -math.log(1.4e-45))  # the smallest number above 0 that float32 can hold
    return View(
        rows[s.start : s.start + PAGE], n, rows[-1].product if rows else Markup(""), sum_to(n) if n else "",
        [rows[int(t)] for t in np.argsort(-costs, kind="stable")[:NAMED]],
        int(dies[0]) + 1 if dies.size else None,
        max(s.start - PAGE, 0) if s.start else None,
        s.start + PAGE if s.start + PAGE < n else None,
    )  # fmt: skip


def sum_to(n: int) -> str:
    """The cost of the first n predictions, as an expression."""
    return f"sum(loss_per_token[0:{n}])"


def product(scene: Scene, n: int, total: float, css: str = "num") -> Markup:
    """The product of the first n probabilities as a link, shown also where no float could hold it."""
    power = -total / math.log(10)
    if power > -300:
        p = math.exp(-total)
        text = numbers.scientific(p) if p < 0.01 else numbers.fixed(p, 3)
        return scene.num.shown(f"calc(exp(0-{sum_to(n)}))", text, css=css)
    shown = f"10{numbers.superscript(round(power))}"
    return scene.num.link(f"calc({sum_to(n)}/log(10))", Markup(shown), css="live")


PART = Part(
    "math_surprise", "Every token and its cost", Settings, view, home="math#product", rem=36,
    about="The probability of each token of your sentence, their product, and the sum of their costs.",
)  # fmt: skip
