"""The page of learning: what a job found, as words, charts and tables in which every number leads on."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from app.panels.learning.curve import Point, curve, points
from app.panels.learning.moved import MovedRow, moved
from app.panels.learning.numbers import Show
from app.panels.learning.shares import ShareRow, shares, shares_say
from app.panels.learning.steps import (
    StepRow,
    probabilities,
    rows,
    steps_say,
)
from app.panels.learning.verdict import verdict
from app.render import numbers
from app.render.curves import Line, by_step
from app.request.state import State
from app.stores.learned import Learned
from model import Run


@dataclass(frozen=True)
class LearnView:
    """All that `learn/_results.html` shows of a finished job."""

    eta: str
    is_adamw: bool
    steps: int
    verdict: Markup
    curve: Markup
    curve_says: tuple[Markup, ...]
    points: tuple[Point, ...]
    losses: Markup
    probabilities: Markup
    steps_say: Markup
    tokens: tuple[Markup, ...]
    rows: tuple[StepRow, ...]
    shares: tuple[ShareRow, ...]
    shares_say: Markup
    rest: Markup
    n_rest: int
    axis: Markup
    moved: tuple[MovedRow, ...]
    moved_says: Markup


def learn_view(run: Run, state: State, learned: Learned) -> LearnView:
    """`run` learns in the way that `state` says."""
    show = Show(run, state, learned)
    drawn, says = curve(show)
    groups, axis, moved_says = moved(show)
    rows_of_shares, rest = shares(show)
    return LearnView(
        eta=numbers.full(learned.rate.eta, 6),
        is_adamw=learned.rate.optimizer == "adamw",
        steps=learned.steps,
        verdict=verdict(show),
        curve=drawn,
        curve_says=says,
        points=tuple(points(show)),
        losses=by_step(
            [Line("loss", learned.losses, "total")], None, None, f"The loss after each of {learned.steps} steps"
        ),
        probabilities=probabilities(show),
        steps_say=steps_say(show),
        tokens=tuple(show.token(token) for token in learned.tokens),
        rows=tuple(rows(show)),
        shares=tuple(rows_of_shares),
        shares_say=shares_say(show),
        rest=rest,
        n_rest=run.model.config.d_vocab - len(learned.changes),
        axis=axis,
        moved=groups,
        moved_says=moved_says,
    )
