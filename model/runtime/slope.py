"""The loss as all weights move along their slopes together, and a learning rate that is seen to lower it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from model.ops.update import Optimizer, Rate
from model.runtime.backward import loss_on
from model.runtime.capture import parameter_views
from model.runtime.learn import Learner, Learning, scratch_capture

# The share of the loss that a first step should take away if the loss fell as straight as its slope says.
FIRST_STEP = 0.25
PUBLISHED = {"gpt2": 2e-5}


@torch.no_grad()
def losses_along_slope(
    run: Learner, etas: Sequence[float], on_point: Callable[[int], None] | None = None
) -> list[float]:
    """The loss at θ − η·∂L/∂θ, all weights at once, for each η (negative ones climb). One scratch copy of weights."""
    starts = parameter_views(run.model.capture.net)
    slopes = {name: run.gradient_at(name, (slice(None, None),) * p.ndim).to(p.device) for name, p in starts.items()}
    scratch = scratch_capture(run.model)
    weights = parameter_views(scratch.net)
    found = []
    for n, eta in enumerate(etas):
        if on_point is not None:
            on_point(n)
        for name, p in weights.items():
            p.copy_(starts[name]).add_(slopes[name], alpha=-eta)
        found.append(loss_on(scratch, run))
    return found


def suggested_rate(run: Learner, optimizer: Optimizer = "sgd") -> Rate:
    """An η of one significant digit, found by measuring: halved until a real first step lowers the loss.

    Where the loss falls as straight as its slope says, SGD's first step lowers it by η·Σ slope², AdamW's, which moves
    every weight by η against the sign of its slope, by η·Σ|slope|.
    """
    if optimizer == "sgd" and run.model.name in PUBLISHED:
        return Rate(PUBLISHED[run.model.name])
    steep, loss = steepness(run, optimizer), float(run.tensor("loss"))
    if not (math.isfinite(steep) and steep > 0 and loss > 0):
        return Rate(1e-3 if optimizer == "sgd" else 1e-4, optimizer)
    eta = round_down(min(FIRST_STEP * loss / steep, 1.0))
    for _ in range(8):
        learning = Learning(run, Rate(eta, optimizer))
        learning.take(1)
        if float(learning.runs[1].tensor("loss")) < loss:
            break
        eta = round_down(eta / 2)
    return Rate(eta, optimizer)


def steepness(run: Learner, optimizer: Optimizer) -> float:
    """How fast the loss falls at the start, by η: Σ slope² over all weights for SGD, Σ|slope| for AdamW."""
    weights = parameter_views(run.model.net)
    slopes = (run.gradient_at(name, (slice(None, None),) * p.ndim) for name, p in weights.items())
    return sum(float((slope.square() if optimizer == "sgd" else slope.abs()).sum()) for slope in slopes)


def round_down(x: float) -> float:
    """To one significant digit, towards zero: 0.0387 to 0.03."""
    power = math.floor(math.log10(x))
    return float(f"{math.floor(x / 10.0**power)}e{power}")
