"""Numbers of the why panel, where a small one must still say what it is."""

from __future__ import annotations

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
