"""All lessons, in reading order."""

from __future__ import annotations

from app.features.lessons.base import Lesson
from app.features.lessons.math import LESSON as MATH
from app.features.lessons.transformer import LESSON as TRANSFORMER

LESSONS: tuple[Lesson, ...] = (TRANSFORMER, MATH)
