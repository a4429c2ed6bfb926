"""How fast to learn where the reader does not say: an η measured on the run, for either optimizer."""

from __future__ import annotations

from model import Run
from model.ops.update import Optimizer, Rate
from model.slope import suggested_rate


def measured_rate(run: Run, optimizer: Optimizer) -> Rate:
    """The rate with which a first step is seen to lower this run's loss."""
    return suggested_rate(run, optimizer)
