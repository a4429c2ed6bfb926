"""All lessons, in reading order."""

from __future__ import annotations

from app.lessons.base import Lesson
from app.lessons.math import LESSON as MATH
from app.lessons.transformer import LESSON as TRANSFORMER

LESSONS: tuple[Lesson, ...] = (TRANSFORMER, MATH)
