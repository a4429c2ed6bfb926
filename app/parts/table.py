"""All live parts by name. A lesson adds its own list."""

from __future__ import annotations

from app.parts import lesson1, lesson2
from app.parts.base import Part

LISTS = (lesson1.PARTS, lesson2.PARTS)

PARTS: dict[str, Part] = {part.name: part for parts in LISTS for part in parts}
