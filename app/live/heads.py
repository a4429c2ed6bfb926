"""Every head's attention pattern for the reader's sentence; one of them large, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.live import base
from app.live.base import Part, Scene
from app.live.mask import check_head
from app.present import heat
from model.heads import KINDS, HeadScores, kinds_of

MANY = 48  # heads; of larger models one block is shown at a time
MOST = 16  # positions of the large matrix
CLEAR = 0.4  # the share of attention from which a head is said to do something


class Settings(base.Settings):
    """The head that is shown large. Left out: the clearest one of those measured."""

    block: int | None = Field(None, ge=0, le=999)
    head: int | None = Field(None, ge=0, le=999)


@dataclass(frozen=True)
class Head:
    """One head: its pattern as a small picture, and what it does where that was measured."""

    block: int
    head: int
    picture: Markup
    does: str
    current: bool


@dataclass(frozen=True)
class Named:
    """A kind of head, the head of this model that does it most, and how much: a share of its attention."""

    kind: str
    words: str
    block: int
    head: int
    share: float
    clear: bool


@dataclass(frozen=True)
class View:
    rows: list[tuple[int, list[Head]]]
    one_block: bool
    block: int
    head: int
    named: list[Named]
    kinds: list[tuple[str, float]]
    positions: list[tuple[int, Markup]]
    cells: list[list[Markup]]
    hidden: int


def view(scene: Scene, s: Settings) -> View:
    c = scene.model.config
    scores = scene.held.models.heads(scene.state.model)
    named = clearest(scores)
    block = s.block if s.block is not None else (named[0].block if named else 0)
    head = s.head if s.head is not None else (named[0].head if named and s.block is None else 0)
    check_head(scene, block, head)
    by_place = {(one.block, one.head): one for one in scores}
    one_block = c.n_layer * c.n_head > MANY
    rows = []
    for b in [block] if one_block else range(c.n_layer):
        patterns = scene.run.tensor(f"blocks.{b}.attn.pattern").numpy()
        rows.append(
            (b, [Head(b, h, small(patterns[h]), does(by_place.get((b, h))), (b, h) == (block, head))
                 for h in range(c.n_head)])
        )  # fmt: skip
    pattern = scene.run.tensor(f"blocks.{block}.attn.pattern").numpy()[head]
    first = max(0, scene.run.n_pos - MOST)
    shown = [*([0] if first else []), *range(first + (1 if first else 0), scene.run.n_pos)]
    steps = heat.Scale(1.0, 1.0).steps(pattern)
    cells = [
        [
            scene.num.shown(f"blocks.{block}.attn.pattern[{head},{q},{k}]", f"{100 * pattern[q, k]:.0f}",
                            css=f"num heat-cell {heat.css(int(steps[q, k]))}") if k <= q else Markup("")
            for k in shown
        ]
        for q in shown
    ]  # fmt: skip
    mine = by_place.get((block, head))
    kinds = [(KINDS[kind], float(getattr(mine, kind))) for kind in kinds_of(mine, CLEAR)] if mine else []
    return View(
        rows, one_block, block, head, named, kinds, [(t, scene.num.at(t)) for t in shown], cells,
        scene.run.n_pos - len(shown),
    )  # fmt: skip


def clearest(scores: list[HeadScores]) -> list[Named]:
    """For each kind that could be measured, the head that does it most."""
    found = []
    for kind, words in KINDS.items():
        having = [one for one in scores if getattr(one, kind) is not None]
        if having:
            best = max(having, key=lambda one: float(getattr(one, kind)))
            share = float(getattr(best, kind))
            found.append(Named(kind, words, best.block, best.head, share, share >= CLEAR))
    return sorted(found, key=lambda one: -one.share)


def does(scores: HeadScores | None) -> str:
    return ", ".join(KINDS[kind] for kind in kinds_of(scores, CLEAR)) if scores else ""


def small(pattern: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Markup:
    """The pattern as a small picture; of a long text, cells that share a pixel show their largest weight."""
    n, most = len(pattern), 48
    if n > most:
        edges = np.linspace(0, n, most + 1).astype(int)[:-1]
        pattern = np.maximum.reduceat(np.maximum.reduceat(pattern, edges, 0), edges, 1)
    return heat.picture(heat.Scale(1.0, 1.0).steps(pattern))


PART = Part(
    "heads", "Every head at once", Settings, view, home="transformer#heads", rem=64,
    about="Every head’s attention pattern for your sentence. Open one to see its numbers.",
)  # fmt: skip
