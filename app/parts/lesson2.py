"""The live parts of the lesson "The math inside a transformer", in the order of its sections."""

from __future__ import annotations

from app.parts import (
    math_back,
    math_cost,
    math_divide,
    math_dot,
    math_learn,
    math_nudge,
    math_pull,
    math_scales,
    math_slopes,
    math_surprise,
    math_words,
)
from app.parts.base import Part

PARTS: tuple[Part, ...] = (
    math_dot.PART,
    math_words.PART,
    math_divide.PART,
    math_surprise.PART,
    math_scales.PART,
    math_cost.PART,
    math_nudge.PART,
    math_slopes.PART,
    math_pull.PART,
    math_back.PART,
    math_learn.PART,
)
