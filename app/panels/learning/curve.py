"""The loss along the slope: its curve, what it says, and its points."""

from __future__ import annotations

import math

from markupsafe import Markup

from app.panels.learning.show import LearnedNumbers
from app.render import numbers
from app.render.curves import along_slope
from app.render.numbers import exact
from app.render.templating import Context
from app.server.prefix import AppPath
from model import Run
from model.address.parser import MAX_LENGTH, MAX_SIGNS

LEARN = AppPath("/learn")


def curve(show: LearnedNumbers) -> Markup:
    learned = show.learned

    def link(eta: float) -> str:
        return "" if show.is_long else show.state.replace(at="", eta=eta, optimizer="sgd").url(LEARN)

    label = f"The loss at {len(learned.etas)} places along the slope, on both sides of the weights as they are"
    chosen = learned.rate.eta if learned.rate.optimizer == "sgd" else None
    return along_slope(learned.etas, learned.curve, chosen, learned.steepness, link, label)


def curve_says(show: LearnedNumbers) -> list[Markup]:
    """Where the curve is lowest, and how far the straight line holds."""
    learned = show.learned
    if learned.rate.eta == 0:
        return [Markup("With η = 0 no weight moves, so there is no curve to draw.")]
    if not any(map(math.isfinite, learned.curve)):
        return [Markup("None of these losses is a number.")]
    if learned.rate.optimizer == "adamw":
        beside = "AdamW does not go straight along the slope, so its steps lie beside this line; the marks are for SGD."
        return [_lowest(show), Markup(beside)]
    return [_lowest(show), *_promise(show)]


def _lowest(show: LearnedNumbers) -> Markup:
    learned = show.learned
    finite = [(loss, eta) for eta, loss in zip(learned.etas, learned.curve, strict=True) if math.isfinite(loss)]
    down = [(loss, eta) for loss, eta in finite if eta > 0]
    lowest, where = min(down, default=(math.inf, 0.0))
    if not lowest < learned.curve[learned.etas.index(0.0)]:
        return Markup("No step down the slope that is drawn here lowers the loss.")
    return Markup("The lowest of {} is {}, {}at η = {}{}.").format(
        "these losses" if lowest == min(finite)[0] else "the losses down the slope",
        show.stepped(where, exact(lowest), "num live"),
        "first " if sum(loss == lowest for loss, _ in down) > 1 else "",
        numbers.full(where, 3),
        "" if where < learned.etas[-1] else ", the farthest point drawn",
    )


def _promise(show: LearnedNumbers) -> list[Markup]:
    """What the slope alone promises of the chosen η, beside what came of it."""
    learned = show.learned
    promised = learned.losses[0] - learned.rate.eta * learned.steepness
    at = _promise_of(show.run, learned.rate.eta)
    if not (math.isfinite(promised) and math.isfinite(learned.losses[1]) and at):
        return []
    line, real = show.number(at, exact(promised), live=True), show.loss(1, live=True)
    says = [Markup("At the chosen η the straight line promises {}; the network really has {}.").format(line, real)]
    if promised < 0:
        says.append(Markup("A loss cannot be negative: the straight line holds only near η = 0."))
    return says


def _promise_of(run: Run, eta: float) -> str:
    """The address of what the slope alone promises of one step; "" where it would be longer than an address may be."""
    names = [node.name for node in run.model.graph.parameters if not node.is_view]
    at = f"calc(loss-{eta!r}*({'+'.join(f'sum({name}.grad*{name}.grad)' for name in names)}))"
    return at if len(at) < MAX_LENGTH and 2 * len(names) + 2 < MAX_SIGNS else ""


def curve_table(show: LearnedNumbers) -> list[Context]:
    """Every η of the curve. A loss leads to the loss after one such step; up the slope there is no such step."""
    learned = show.learned
    is_sgd = learned.rate.optimizer == "sgd"
    return [
        {"eta": eta, "is_chosen": is_sgd and eta == learned.rate.eta, "loss": _point(show, eta, exact(loss))}
        for eta, loss in zip(learned.etas, learned.curve, strict=True)
    ]


def _point(show: LearnedNumbers, eta: float, text: str) -> Markup:
    if eta == 0:
        return show.links.number("loss", text)
    if eta > 0 and not show.is_long:
        return show.stepped(eta, text, "num")
    return Markup('<span class="muted">{}</span>').format(text)
