"""Numbers of the why panel, where a small one must still say what it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.render import numbers


def exact(x: float) -> str:
    """A number on its own: four decimals, of a small one four figures: 4.0444, 0.03876, 0.0007309, 3.1×10⁻⁷."""
    return _figures(x, 4) if 1e-4 <= abs(x) < 0.1 else numbers.value(x)


def short(x: float) -> str:
    """A number beside its name: 4.044, 0.0388, 0.00073."""
    return _figures(x, 3) if 1e-4 <= abs(x) < 0.1 else numbers.value(x, 3)


def _figures(x: float, figures: int) -> str:
    decimals = len(f"{x:.{figures}g}".partition(".")[2])
    return numbers.fixed(x, decimals)


def column_text(values: Sequence[float], figures: int = 4) -> list[str]:
    """Numbers of one column with the same decimals, so that their points stand under each other."""
    most = numbers.largest(values)
    if most == 0 or not 1e-5 <= most < 1e6:
        return [numbers.value(x) for x in values]
    figures -= most < 1e-3
    decimals = min(max(figures - 1 - int(np.floor(np.log10(most))), 0), 7)
    whole = all(float(x).is_integer() for x in values if np.isfinite(x))
    return [_aligned(x, 0 if whole else decimals) for x in values]


def _aligned(x: float, decimals: int) -> str:
    """Fixed decimals, but powers of ten for a small number that they would show as nothing."""
    vanishes = x != 0 and abs(x) < 0.5 * 10.0**-decimals
    return numbers.scientific(x, 1) if vanishes else numbers.fixed(x, decimals)
