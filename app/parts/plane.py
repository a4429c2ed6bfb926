"""Arrows in the plane as live parts draw them: from the middle of a square picture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plane:
    """A picture of `side` pixels that shows −`reach` … `reach` both ways, with a margin."""

    side: int
    reach: float
    margin: int

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies, in pixels."""
        half = self.side / 2
        scale = half - self.margin
        return round(half + x / self.reach * scale, 1), round(half - y / self.reach * scale, 1)
