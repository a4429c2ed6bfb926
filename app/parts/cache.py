"""Generation with and without the cache: pairs, time, and whether both give the same logits."""

from __future__ import annotations

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from model.runtime.generate import Step, generate
from model.runtime.sample import MAX_SEED


@live_part("With and without the cache", home="transformer#fast", rem=32)
class Cache(Settings):
    """The same tokens made twice, with keys and values kept and with everything computed anew."""

    tokens: int = Field(10, ge=2, le=40)
    seed: int = Field(0, ge=0, le=MAX_SEED)

    def view(self, scene: Scene) -> View:
        """`difference` is the largest between the two ways' logits in any step, `scale` the largest logit."""
        prompt = list(scene.run.tokens)
        steps = generate(scene.model, prompt, self.tokens, seed=self.seed, temperature=0.8, compare=True)
        rows = [row(step) for step in steps]
        difference, scale = max(row.difference for row in rows), max(row.scale for row in rows)
        return View(rows=rows, difference=difference, scale=scale, same=difference <= 1e-4 * scale)


def row(step: Step) -> View:
    """One step: tokens read so far, and with and without the cache: query-key pairs of one head, as expressions, and
    measured milliseconds.
    """
    other, t = step.comparison, len(step.read)
    assert other is not None  # asked for
    triangle = f"{t}*({t}+1)/2"
    return View(
        t=t,
        token=step.token,
        pairs=f"{t}" if step.rows.reused else triangle,
        without=triangle,
        ms=1000 * step.seconds,
        ms_without=1000 * other.seconds,
        difference=other.difference,
        scale=other.scale,
    )
