"""How fast to learn where the reader does not say: an η measured on the run, for either optimizer."""

from __future__ import annotations

import math

from model import Run
from model.ops.update import Optimizer, Rate
from model.slope import FIRST_STEP, round_down, suggested_rate

HALVINGS = 8


def measured_rate(run: Run, optimizer: Optimizer) -> Rate:
    """The rate with which a first step is seen to lower this run's loss."""
    return suggested_rate(run) if optimizer == "sgd" else _adamw(run)


def _adamw(run: Run) -> Rate:
    """AdamW's first step moves every weight by η against the sign of its slope: the loss falls by about η·Σ|slope|."""
    names = [node.name for node in run.model.graph.parameters if node.name != "W_U"]
    steepness = sum(float(run.gradient_at(name, (slice(None),) * len(run.shape(name))).abs().sum()) for name in names)
    loss = float(run.tensor("loss"))
    if not (math.isfinite(steepness) and steepness > 0 and loss > 0):
        return Rate(1e-4, "adamw")
    eta = round_down(min(FIRST_STEP * loss / steepness, 0.1))
    for _ in range(HALVINGS):
        learning = run.at_rate(Rate(eta, "adamw")).learning
        learning.take(1)
        if float(learning.runs[1].tensor("loss")) < loss:
            break
        eta = round_down(eta / 2)
    return Rate(eta, "adamw")
