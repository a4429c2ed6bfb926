"""All lessons, in reading order."""

from __future__ import annotations

from app.lessons import math, transformer
from app.lessons.base import Lesson

LESSONS: tuple[Lesson, ...] = (transformer.LESSON, math.LESSON)
