"""Heat: how a number becomes one of eight steps of a colour on either side, and how many become one small picture.

Steps are CSS classes (`pos-1` … `pos-8`, `neg-1` … `neg-8`): themes colour them, and no page needs inline styles.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

STEPS = 8

# The root lifts small numbers into view. Shares of a whole stay in proportion: half the weight, half the depth.
ROOT = 1 / 1.5

Array = NDArray[Any]
Steps = NDArray[np.int8]


@dataclass(frozen=True)
class Scale:
    """step = round(8·(|x|/largest)^exponent), with the sign of x."""

    largest: float
    exponent: float = ROOT

    def steps(self, x: Array) -> Steps:
        """A signed step for each number; 0 for those too small to show, NaN and ±∞."""
        if not self.largest > 0:
            return np.zeros(np.shape(x), dtype=np.int8)
        finite = np.where(np.isfinite(x), x, 0.0).astype(np.float64)
        share = np.minimum(np.abs(finite) / self.largest, 1.0)
        return (np.sign(finite) * np.rint(STEPS * share**self.exponent)).astype(np.int8)

    def edge(self, step: float) -> float:
        """The number that lies at a (fractional) step: the inverse of `steps`."""
        share = (abs(step) / STEPS) ** (1 / self.exponent)
        return float(np.copysign(share * self.largest, step))


def exponent_of(span: str, quantity: str = "") -> float:
    """The exponent by what a node's numbers can be (`Node.span`); slopes are no shares of anything."""
    return 1.0 if span != "any" and (not quantity or quantity.startswith("step")) else ROOT


def css(step: int) -> str:
    """The class of a signed step; "" for none."""
    return f"pos-{step}" if step > 0 else f"neg-{-step}" if step < 0 else ""


def picture(steps: Steps, name: str = "", marks: str = "") -> Markup:
    """One small SVG, a cell a number: one path a step, and a dash on every negative cell. `marks` go on top.

    A row of equal cells is one stroke, one unit thick; the cell in column x of row y covers x…x+1, y…y+1. The dashes
    are the negative paths drawn again (CSS says how); for that they need an id, so `name` must be the page's only one.
    """
    rows, cols = steps.shape
    strokes: dict[int, list[str]] = {}
    for y, row in enumerate(steps.tolist()):
        for step, x, n in _runs(row):
            if step:
                strokes.setdefault(step, []).append(f"M{x} {y}h{n}")
    paths = {step: f'<path class="{css(step)}" d="{"".join(d)}"/>' for step, d in sorted(strokes.items())}
    above = "".join(path for step, path in paths.items() if step > 0)
    below = "".join(path for step, path in paths.items() if step < 0)
    if below:
        below = f'<g id="below-{name}">{below}</g><use class="minus" href="#below-{name}"/>'
    box = f'viewBox="0 -.5 {cols} {rows}" preserveAspectRatio="none"'
    return Markup(f'<svg class="heat" {box} aria-hidden="true">{above}{below}{marks}</svg>')


def _runs(row: list[Any]) -> list[tuple[Any, int, int]]:
    """(value, first index, length) of each run of equal values."""
    found, x = [], 0
    for value, group in groupby(row):
        n = len(list(group))
        found.append((value, x, n))
        x += n
    return found
