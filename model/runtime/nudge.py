"""Finite differences on request: the loss really run again with one number moved by ±h, beside its slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from model.errors import AddressError
from model.runtime.run import Run

SIZES = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)

# Fewer float32 steps than this between the two losses, and their difference has fewer than two digits.
FEW = 100


@dataclass(frozen=True)
class Nudge:
    """One size of nudge. `lower` and `upper` are the losses at −h and +h, `secant` (upper − lower)/2h.

    `ulps` counts the float32 steps between the two losses: with few of them the secant is rounding, not slope.
    """

    h: float
    lower: float
    upper: float
    secant: float
    slope: float
    ulps: int

    @property
    def is_lost(self) -> bool:
        """True where float32 has too few digits left for a nudge this small."""
        return self.ulps < FEW


def nudges(run: Run, at: str, sizes: Sequence[float] = SIZES) -> list[Nudge]:
    """Nudge the number at `at`, a captured activation or a weight, by each ±h and run on from there.

    Raises PatchError for a number that is derived from others, AddressError for more than one.
    """
    address = run.model.patch(f"{at}+=0").at
    slope = float(run.values(replace(run.check(address), quantity="grad")))
    return [_nudge(run, at, h, slope) for h in sizes]


def _nudge(run: Run, at: str, h: float, slope: float) -> Nudge:
    if not 0 < h <= 1e3:
        raise AddressError(f"h is {h:g}, but must be above 0 and at most 1000.")
    lower, upper = (float(run.changed([f"{at}+={by!r}"]).tensor("loss")) for by in (-h, h))
    ulp = float(np.spacing(np.float32(max(abs(lower), abs(upper)))))
    return Nudge(h, lower, upper, (upper - lower) / (2 * h), slope, round(abs(upper - lower) / ulp))
