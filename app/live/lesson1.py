"""The live parts of the lesson "A transformer from scratch", in the order of its sections."""

from __future__ import annotations

from app.live import arrows
from app.live.base import Part

PARTS: tuple[Part, ...] = (arrows.PART,)
