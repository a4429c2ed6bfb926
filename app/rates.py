"""How fast to learn where the reader does not say: an η measured on the run, for either optimizer."""

from __future__ import annotations

import math

import torch

from model import Run
from model.backward import slopes_of, tape_loss
from model.learn import scratch_copy
from model.ops.update import Optimizer, Rate
from model.slope import FIRST_STEP, round_down, suggested_rate

HALVINGS = 8


def measured_rate(run: Run, optimizer: Optimizer) -> Rate:
    """The rate with which a first step is seen to lower this run's loss."""
    return suggested_rate(run) if optimizer == "sgd" else _adamw(run)


def _adamw(run: Run) -> Rate:
    """AdamW's first step moves every weight by η against the sign of its slope: the loss falls by about η·Σ|slope|."""
    scratch = scratch_copy(run.model)
    with torch.enable_grad():
        _, slopes = slopes_of(tape_loss(scratch, run), dict(scratch.net.named_parameters()))
    steepness, loss = sum(float(slope.abs().sum()) for slope in slopes.values()), float(run.tensor("loss"))
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
