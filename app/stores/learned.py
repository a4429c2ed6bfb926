"""What one sentence teaches: the loss along its slope and k real steps, as plain numbers that a job hands over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from model import Run
from model.ops.update import Rate
from model.runtime.learn import losses_along_slope, steepness

POINTS = 20  # on either side of where the weights are
REACH = 4  # the curve goes to this many times η
FOLLOWED = 5  # the likeliest tokens before the steps and after them are followed
LISTED = 8  # changes of probability that are listed

# What a point of the curve and a step cost, a forward pass being 1; and finding how far the weights went, a step.
POINT, STEP, WAY = 2.0, 3.0, 0.75
CURVE = POINT * (2 * POINTS + 2)  # all points

Advance = Callable[[float], None]  # called with the work done so far; what it raises ends the work


@dataclass(frozen=True)
class Change:
    """The probability of one next token before the first step and after the last."""

    token: int
    before: float
    after: float


@dataclass(frozen=True)
class Learned:
    """The result of a job.

    `etas` and `curve` are the loss along the slope (negative η go up it), `steepness` how fast it falls at the start.
    `losses[j]` and `probabilities[j]` (of `tokens`, after the last position) are after j steps. `moved` says of every
    parameter how far it went in all its numbers together, in one step and in all.
    """

    rate: Rate
    unit: float  # the η in whose fifths the curve is drawn
    etas: tuple[float, ...]
    curve: tuple[float, ...]
    steepness: float
    losses: tuple[float, ...]
    tokens: tuple[int, ...]
    probabilities: tuple[tuple[float, ...], ...]
    changes: tuple[Change, ...]
    moved: dict[str, tuple[float, float]]

    @property
    def steps(self) -> int:
        return len(self.losses) - 1

    @property
    def nbytes(self) -> int:
        """About what it holds in memory."""
        rows = len(self.etas) + len(self.losses) * (1 + len(self.tokens)) + len(self.changes) + len(self.moved)
        return 64 * rows + 1024


def work(steps: int) -> float:
    """How much work it is, a forward pass being 1."""
    return CURVE + STEP * steps + 1 + WAY * steps


def learn(run: Run, steps: int, advance: Advance = lambda done: None) -> Learned:
    """Take the steps and measure the curve. Steps kept with the run are not taken again."""
    learning = run.learning
    unit = learning.rate.eta if learning.rate.optimizer == "sgd" else run.at_rate(None).rate.eta
    etas = tuple(unit * (REACH * n / POINTS) for n in range(-POINTS, POINTS + 1))
    curve = tuple(losses_along_slope(run, etas, lambda n: advance(POINT * (n + 1))))
    learning.take(steps, lambda j: advance(CURVE + STEP * j))
    before = CURVE + STEP * steps + 1
    probs = [after.tensor("probs")[run.n_pos - 1].numpy() for after in learning.runs[: steps + 1]]
    tokens = followed(run, probs[0], probs[-1])
    return Learned(
        rate=learning.rate,
        unit=unit,
        etas=etas,
        curve=curve,
        steepness=steepness(run, "sgd"),
        losses=tuple(float(after.tensor("loss")) for after in learning.runs[: steps + 1]),
        tokens=tokens,
        probabilities=tuple(tuple(float(p[v]) for v in tokens) for p in probs),
        changes=changes(run, probs[0], probs[-1]),
        moved=moved(run, steps, lambda share: advance(before + WAY * steps * share)),
    )


def followed(run: Run, before: np.ndarray, after: np.ndarray) -> tuple[int, ...]:
    """The target first, then the likeliest before and after; none at probability 0, where only its id would rank it."""
    top = [int(v) for p in (before, after) for v in np.argsort(-p, kind="stable")[:FOLLOWED] if p[v] > 0]
    first = [] if run.is_sequence else [run.target]
    return tuple(dict.fromkeys([*first, *top]))


def changes(run: Run, before: np.ndarray, after: np.ndarray) -> tuple[Change, ...]:
    """The largest changes of probability, largest first."""
    delta = np.abs(after.astype(np.float64) - before)
    largest = np.argsort(-np.nan_to_num(delta), kind="stable")[:LISTED]
    return tuple(Change(int(v), float(before[v]), float(after[v])) for v in largest)


def moved(run: Run, steps: int, advance: Advance) -> dict[str, tuple[float, float]]:
    """‖θ₁ − θ₀‖ and ‖θₖ − θ₀‖ of every parameter (W_U is W_E)."""
    names = [node.name for node in run.model.graph.parameters if not node.is_view]
    sizes = {name: int(np.prod(run.shape(name))) for name in names}
    found, done = {}, 0
    for name in names:
        advance(done / sum(sizes.values()))
        whole = tuple(slice(None) for _ in run.shape(name))
        start = run.weights(name, whole)
        one = float((run.learning.parameter(name, 1, whole) - start).norm())
        found[name] = (one, float((run.learning.parameter(name, steps, whole) - start).norm()) if steps > 1 else one)
        done += sizes[name]
    return found
