"""The live parts of the lesson "A transformer from scratch", in the order of its sections."""

from __future__ import annotations

from app.parts import (
    arrows,
    bend,
    cache,
    collapse,
    cut,
    follow,
    guess,
    heads,
    mask,
    neighbours,
    neurons,
    norm,
    paragraph,
    predictions,
    rope,
    scaling,
    shift,
    shuffle,
    size,
    stream,
    temperature,
    tiny,
)
from app.parts.base import Part

PARTS: tuple[Part, ...] = (
    guess.PART,
    arrows.PART,
    neighbours.PART,
    shuffle.PART,
    rope.PART,
    scaling.PART,
    mask.PART,
    heads.PART,
    neurons.PART,
    bend.PART,
    collapse.PART,
    stream.PART,
    norm.PART,
    size.PART,
    follow.PART,
    shift.PART,
    temperature.PART,
    cut.PART,
    paragraph.PART,
    predictions.PART,
    cache.PART,
    tiny.PART,
)
