"""The loss along the slope: its curve, what it says, and its points."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from app.panels.learning.numbers import Show, stepped
from app.panels.why.numbers import exact
from app.render import numbers
from app.render.curves import along_slope
from app.request.paths import LEARN
from model import Run
from model.address.parser import MAX_LENGTH, MAX_SIGNS


@dataclass(frozen=True)
class Point:
    """One η of the curve. `loss` leads to the loss after one such step; up the slope there is no such step."""

    eta: Markup
    loss: Markup
    is_chosen: bool


def curve(show: Show) -> tuple[Markup, tuple[Markup, ...]]:
    learned, state = show.learned, show.state
    is_sgd = learned.rate.optimizer == "sgd"
    chosen = learned.rate.eta if is_sgd else None

    def link(eta: float) -> str:
        return "" if show.is_long else state.replace(at="", eta=eta, optimizer="sgd").url(LEARN)

    picture = along_slope(
        learned.etas,
        learned.curve,
        chosen,
        learned.steepness,
        link,
        f"The loss at {len(learned.etas)} places along the slope, on both sides of the weights as they are",
    )
    return picture, tuple(_curve_says(show))


def _curve_says(show: Show) -> list[Markup]:
    learned = show.learned
    says = []
    finite = [(loss, eta) for eta, loss in zip(learned.etas, learned.curve, strict=True) if math.isfinite(loss)]
    if learned.rate.eta == 0:
        return [Markup("With η = 0 no weight moves, so there is no curve to draw.")]
    if not finite:
        return [Markup("None of these losses is a number.")]
    start = learned.curve[learned.etas.index(0.0)]
    lowest, where = min(((loss, eta) for loss, eta in finite if eta > 0), default=(math.inf, 0.0))
    if lowest < start:
        which = "these losses" if lowest == min(finite)[0] else "the losses down the slope"
        number = stepped(show.state, where, exact(lowest), "num live")
        says.append(
            Markup("The lowest of {} is {}, {}at η = {}{}.").format(
                which,
                number,
                "first " if sum(loss == lowest for loss, eta in finite if eta > 0) > 1 else "",
                numbers.full(where, 3),
                "" if where < learned.etas[-1] else Markup(", the farthest point drawn"),
            )
        )
    else:
        says.append(Markup("No step down the slope that is drawn here lowers the loss."))
    if learned.rate.optimizer == "adamw":
        says.append(
            Markup(
                "AdamW does not go straight along the slope, so its steps lie beside this line; the marks are for SGD."
            )
        )
        return says
    promised = learned.losses[0] - learned.rate.eta * learned.steepness
    at = _promise_of(show.run, learned.rate.eta)
    if math.isfinite(promised) and math.isfinite(learned.losses[1]) and at:
        says.append(
            Markup("At the chosen η the straight line promises {}; the network really has {}.").format(
                show.cells.number(at, exact(promised), css="num live"), show.loss(1, live=True)
            )
        )
        if promised < 0:
            says.append(Markup("A loss cannot be negative: the straight line holds only near η = 0."))
    return says


def _promise_of(run: Run, eta: float) -> str:
    """The address of what the slope alone promises of one step; "" where it would be longer than an address may be."""
    names = [node.name for node in run.model.graph.parameters if node.name != "W_U"]
    at = f"calc(loss-{eta!r}*({'+'.join(f'sum({name}.grad*{name}.grad)' for name in names)}))"
    return at if len(at) < MAX_LENGTH and 2 * len(names) + 2 < MAX_SIGNS else ""


def points(show: Show) -> list[Point]:
    learned = show.learned
    found = []
    for eta, loss in zip(learned.etas, learned.curve, strict=True):
        text = exact(loss)
        choose, number = Markup(numbers.full(eta, 4)), Markup('<span class="muted">{}</span>').format(text)
        if eta == 0:
            number = show.cells.number("loss", text)
        elif eta > 0:
            choose = Markup('<button form="try" name="eta" value="{}" class="num">{}</button>').format(
                repr(eta), choose
            )
            if not show.is_long:
                number = stepped(show.state, eta, text, "num")
        found.append(Point(choose, number, learned.rate.optimizer == "sgd" and eta == learned.rate.eta))
    return found
