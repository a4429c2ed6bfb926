"""The loss as all weights move along their slopes together, and a learning rate that is seen to lower it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from model.backward import slopes_of, tape_loss
from model.learn import scratch_copy
from model.ops.update import Rate

if TYPE_CHECKING:
    from model.run import Run

# The share of the loss that a first step should take away if the loss fell as straight as its slope says.
FIRST_STEP = 0.25
PUBLISHED = {"gpt2": 2e-5}


def losses_along_slope(run: Run, etas: Sequence[float], on_point: Callable[[int], None] | None = None) -> list[float]:
    """The loss at θ − η·∂L/∂θ, all weights at once, for each η (negative ones climb). One scratch copy of weights."""
    scratch = scratch_copy(run.model)
    weights = dict(scratch.net.named_parameters())
    with torch.enable_grad():
        _, slopes = slopes_of(tape_loss(scratch, run), weights)
    starts = dict(run.model.net.named_parameters())
    found = []
    with torch.no_grad():
        for n, eta in enumerate(etas):
            if on_point is not None:
                on_point(n)
            for name, p in weights.items():
                torch.add(starts[name], slopes[name], alpha=-eta, out=p)
            found.append(float(tape_loss(scratch, run)["loss"]))
    return found


def suggested_rate(run: Run) -> Rate:
    """SGD at an η of one significant digit, found by measuring: halved until a real step lowers the loss."""
    if run.model.name in PUBLISHED:
        return Rate(PUBLISHED[run.model.name])
    scratch = scratch_copy(run.model)
    with torch.enable_grad():
        _, slopes = slopes_of(tape_loss(scratch, run), dict(scratch.net.named_parameters()))
    steepness = sum(float(slope.square().sum()) for slope in slopes.values())
    loss = float(run.tensor("loss"))
    if not (math.isfinite(steepness) and steepness > 0 and loss > 0):
        return Rate(1e-3)
    eta = round_down(min(FIRST_STEP * loss / steepness, 1.0))
    for _ in range(8):
        if losses_along_slope(run, [eta])[0] < loss:
            break
        eta = round_down(eta / 2)
    return Rate(eta)


def round_down(x: float) -> float:
    """To one significant digit, towards zero: 0.0387 to 0.03."""
    power = math.floor(math.log10(x))
    return float(f"{math.floor(x / 10.0**power)}e{power}")
