"""Every position is a free example: what each one predicted, the probability of what came, and its cost."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from model.errors import SettingError

PAGE = 40


class Settings(base.Settings):
    """The first position shown."""

    start: int = Field(0, ge=0)


@dataclass(frozen=True)
class Row:
    """A position: the token read, the one that follows, its probability and cost, and the model's own first guess."""

    t: int
    read: Markup
    next: Markup
    probability: str
    cost: str
    width: float
    guess: Markup
    right: bool
    is_target: bool


@dataclass(frozen=True)
class View:
    """`mean` is the mean cost of the text's own predictions, an expression; "" where the text has none."""

    rows: list[Row]
    mean: str
    n: int
    right: int
    worst: Row | None
    earlier: int | None
    later: int | None


def view(scene: Scene, s: Settings) -> View:
    run, last = scene.run, scene.last
    if s.start > last:
        raise SettingError("start", f"There is no position {s.start}: the last is {last}.", "Write start=0.")
    costs = run.tensor("loss_per_token").numpy()
    most = float(costs.max()) or 1.0
    rows = []
    for t in range(last + 1):
        next_token, guess = run.next_token(t), run.largest_logit(t)
        rows.append(
            Row(
                t, scene.num.at(t), scene.num.token(next_token), f"probs[{t},{next_token}]", f"loss_per_token[{t}]",
                round(100 * float(costs[t]) / most, 2), scene.num.token(guess), guess == next_token, t == last,
            )
        )  # fmt: skip
    own = rows[:-1]
    return View(
        rows[s.start : s.start + PAGE],
        f"sum(loss_per_token[0:{last}])/{last}" if last else "",
        len(own),
        sum(row.right for row in own),
        max(own, key=lambda row: float(costs[row.t])) if own else None,
        max(s.start - PAGE, 0) if s.start else None,
        s.start + PAGE if s.start + PAGE <= last else None,
    )


PART = Part(
    "predictions", "Every position a prediction", Settings, view, home="transformer#examples", rem=40,
    about="What the model expected after each token of your sentence, and what each surprise cost.",
)  # fmt: skip
