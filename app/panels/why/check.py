"""The check: recomputed against captured, digit by digit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from app.render import numbers
from app.render.templating import Context
from model.explain.terms import FLOOR, TOLERANCE

if TYPE_CHECKING:
    from model.explain.explanation import Explanation

FIGURES = 11


class Digits(NamedTuple):
    """A number's digits: those that both numbers share, then those beyond."""

    same: str
    beyond: str


def check(e: Explanation) -> Context:
    """The comparison that `e` makes; a fault where the two do not meet."""
    recomputed, captured = compared(e.total, e.value)
    captured_as = "worked out directly" if e.kind == "arithmetic" else "captured in float32"
    is_comparable = math.isfinite(e.difference)
    return {
        "numbers": (("recomputed in float64", recomputed), (captured_as, captured)),
        "difference": numbers.value(e.difference, 12) if e.difference == 0 else numbers.scientific(e.difference),
        "fault": e.fault,
        "is_finite": math.isfinite(e.total),
        "times": numbers.value(abs(e.difference / e.allowed), 1) if e.fault and is_comparable else "",
        "allowed": f"{numbers.scientific(e.allowed, 1)}, {_how(e)}" if math.isfinite(e.allowed) else "",
    }


def compared(a: float, b: float) -> tuple[Digits, Digits]:
    """Two numbers written alike, cut where they part."""
    left, right = _written(a, a, b), _written(b, a, b)
    same = next((n for n, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    if numbers.special(a) or numbers.special(b):
        same = len(left) if left == right else 0
    return Digits(left[:same], left[same:]), Digits(right[:same], right[same:])


def _written(x: float, a: float, b: float) -> str:
    odd = numbers.special(x)
    if odd:
        return odd
    most = max((abs(v) for v in (a, b) if math.isfinite(v)), default=0.0)
    if most == 0:
        return "0"
    power = math.floor(math.log10(most))
    if -6 <= power < 9:
        return numbers.fixed(x, max(FIGURES - 1 - power, 0))
    return f"{numbers.fixed(x / 10.0**power, FIGURES - 1)}×10{numbers.superscript(power)}"


def _how(e: Explanation) -> str:
    if e.allowed <= FLOOR:
        return "a floor for numbers near zero"
    power = f"10{numbers.superscript(round(math.log10(TOLERANCE)))}"
    if e.combine == "sum":
        return f"{power} × the sum of the terms’ sizes, {numbers.value(e.allowed / TOLERANCE, 2)}"
    return f"{power} × the value"
