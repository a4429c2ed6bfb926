"""How the numbers of one table are written: the same decimals for all, and in little room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.render import numbers

TINY = 0.005  # below this, decimals would print mostly zeros

Array = NDArray[Any]


class Figures:
    """A way to write numbers that suits all of `values`.

    Where nearly all are tiny, those of both signs share a power of ten (`unit` says it, “10⁻³”). Those of one sign
    (probabilities, over many sizes) each have their own if all are tiny; beside a large one they are 0.00.
    """

    def __init__(self, values: Array) -> None:
        self.is_whole = values.dtype.kind in "iu"
        finite = values[np.isfinite(values)]
        sizes = np.abs(finite[finite != 0])
        typical = float(np.quantile(sizes, 0.9)) if sizes.size else 0.0
        one_sign = not bool((finite < 0).any())
        self.is_tiny = 0 < typical < TINY and not (one_sign and float(sizes.max()) >= TINY)
        self.power = math.floor(math.log10(typical)) if self.is_tiny and not one_sign else 0
        scaled = finite / 10.0**self.power
        most = numbers.decimals_for(max(typical, TINY * one_sign) / 10.0**self.power)
        self.decimals = 0 if self.is_whole else _needed(scaled, min(most, 2) if one_sign and typical < TINY else most)

    @property
    def unit(self) -> str:
        """The power of ten that all numbers are to be multiplied by, “10⁻³”; "" for 1."""
        return f"10{numbers.superscript(self.power)}" if self.power else ""

    def show(self, x: float) -> str:
        """−36.6; of an outlier fewer decimals; a number too small for them by its own power of ten."""
        if self.is_whole:
            return numbers.count(int(x))
        if self.is_tiny and x == 0:
            return "0"
        if self.power:
            return self._fixed(x / 10.0**self.power)
        if self.is_tiny and abs(x) < TINY:
            return numbers.scientific(x, 0).replace("×", "·")
        return self._fixed(x)

    def _fixed(self, x: float) -> str:
        outlier = abs(x) >= 10
        return numbers.fixed(x, min(self.decimals, numbers.decimals_for(abs(x))) if outlier else self.decimals)


def _needed(values: Array, most: int) -> int:
    """Decimals that say as much about these numbers as `most` do: 1 for 0.50 and 1.50."""
    exact = np.round(values.astype(np.float64), most)
    return next((n for n in range(most) if np.allclose(np.round(values, n), exact, rtol=0, atol=1e-6)), most)


def column_text(values: Sequence[float], figures: int = 4) -> list[str]:
    """Numbers of one column, their points under each other: 1.250, 0.500; too small for that: 3.1×10⁻⁶."""
    most = numbers.largest(values)
    if most == 0 or not 1e-5 <= most < 1e6:
        return [numbers.value(x) for x in values]
    figures -= most < 1e-3
    decimals = min(max(figures - 1 - math.floor(math.log10(most)), 0), 7)
    whole = all(float(x).is_integer() for x in values if math.isfinite(x))
    return [numbers.formatted(x, str(0 if whole else decimals)) for x in values]
