"""Generation with and without the cache: pairs, time, and whether both give the same logits."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from model.runtime.generate import generate
from model.runtime.sample import MAX_SEED


class Settings(base.Settings):
    """How many tokens are made."""

    tokens: int = Field(10, ge=2, le=40)
    seed: int = Field(0, ge=0, le=MAX_SEED)


@dataclass(frozen=True)
class Row:
    """One step: tokens read so far, and with and without the cache: query-key pairs of one head, as expressions, and
    measured milliseconds. `difference` is the largest between the two ways' logits.
    """

    t: int
    token: Markup
    pairs: str
    without: str
    ms: float
    ms_without: float
    difference: float


@dataclass(frozen=True)
class View:
    """`difference` is the largest between the two ways' logits in any step, `scale` the largest logit."""

    rows: list[Row]
    pairs: str
    without: str
    ms: float
    ms_without: float
    difference: float
    scale: float
    same: bool


def view(scene: Scene, s: Settings) -> View:
    steps = list(generate(scene.model, list(scene.run.tokens), s.tokens, seed=s.seed, temperature=0.8, compare=True))
    rows, scale = [], 0.0
    for step in steps:
        other = step.comparison
        assert other is not None  # asked for
        scale, t = max(scale, other.scale), len(step.read)
        triangle = f"{t}*({t}+1)/2"
        rows.append(
            Row(
                t, scene.num.token(step.token), f"{t}" if step.rows.reused else triangle, triangle,
                1000 * step.seconds, 1000 * other.seconds, other.difference,
            )
        )  # fmt: skip
    difference = max(row.difference for row in rows)
    return View(
        rows, "+".join(row.pairs for row in rows), "+".join(row.without for row in rows), sum(row.ms for row in rows),
        sum(row.ms_without for row in rows), difference, scale, difference <= 1e-4 * scale,
    )  # fmt: skip


PART = Part(
    "cache", "With and without the cache", Settings, view, home="transformer#fast", rem=32,
    about="The same tokens made twice, with keys and values kept and with everything computed anew.",
)  # fmt: skip
