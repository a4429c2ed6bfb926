"""Lesson 1: a transformer from scratch."""

from __future__ import annotations

from dataclasses import dataclass

from app.lessons.base import Lesson, Section
from app.live.base import Scene


@dataclass(frozen=True)
class Facts:
    """What the page measured in this run."""

    last: int


def facts(scene: Scene) -> Facts:
    return Facts(last=scene.last)


LESSON = Lesson(
    name="transformer",
    number=1,
    title="A transformer from scratch",
    lead="A language model does one thing, again and again: guess the next token. This page builds one guess.",
    sections=(Section("vectors", "Words become vectors", (("same-direction", "Similar means the same direction"),)),),
    facts=facts,
    target=" Mary",
)  # fmt: skip
