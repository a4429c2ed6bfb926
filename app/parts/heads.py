"""Every head's attention pattern for the reader's sentence; one of them large, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import (
    Numbers,
    Part,
    Scene,
    formatted,
)
from app.parts.mask import check_head
from app.render import heat
from model.study.head_texts import (
    HeadText,
    looks,
    shares,
    texts_of,
)
from model.study.heads import KINDS, HeadScores, kinds_of

MANY = 48  # heads; of larger models one block is shown at a time
MOST = 16  # positions of the large matrix
CLEAR = 0.4  # the share of attention from which a head is said to do something


class Settings(base.Settings):
    """The head that is shown large, left out: the clearest one of those measured; and which of its shares is opened."""

    block: int | None = Field(None, ge=0, le=999)
    head: int | None = Field(None, ge=0, le=999)
    kind: Literal["", *KINDS] = ""  # type: ignore[valid-type]


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
    """A kind of head (a key of KINDS), the head of this model that does it most, and how much of its attention."""

    kind: str
    words: str
    block: int
    head: int
    share: float
    clear: bool


@dataclass(frozen=True)
class Test:
    """A text that the opened share was measured on: its tokens, and the share in its own run."""

    tokens: list[Markup]
    share: Markup


@dataclass(frozen=True)
class Opened:
    """How one share of the head was measured. `groups` are texts with their mean as arithmetic on their shares.

    Of several groups the smaller mean counts. `own` is the same share in the reader's sentence, an expression; "" where
    nothing in it counts.
    """

    kind: str
    words: str
    share: float
    groups: list[tuple[str, list[Test], str]]
    own: str


@dataclass(frozen=True)
class View:
    rows: list[tuple[int, list[Head]]]
    one_block: bool
    block: int
    head: int
    named: list[Named]
    kinds: list[tuple[str, str, float]]
    opened: Opened | None
    positions: list[tuple[int, Markup]]
    cells: list[list[Markup]]
    hidden: int


def view(scene: Scene, s: Settings) -> View:
    c = scene.model.config
    scores = scene.services.models.heads(scene.state.model)
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
    kinds = [(kind, KINDS[kind], float(getattr(mine, kind))) for kind in kinds_of(mine, CLEAR)] if mine else []
    return View(
        rows, one_block, block, head, named, kinds, opened(scene, s.kind, mine),
        [(t, scene.num.at(t)) for t in shown], cells, scene.run.n_pos - len(shown),
    )  # fmt: skip


def opened(scene: Scene, kind: str, scores: HeadScores | None) -> Opened | None:
    """The share of one kind, text by text."""
    if not kind or scores is None or getattr(scores, kind) is None:
        return None
    block, head = scores.block, scores.head
    texts = texts_of(scene.model, kind)
    measured = shares(scene.model.net, texts, block, head)
    groups: dict[str, list[tuple[Test, float]]] = {}
    for text, share in zip(texts, measured, strict=True):
        groups.setdefault(text.group, []).append((test(scene, text, block, head, share), share))
    return Opened(
        kind, KINDS[kind], float(getattr(scores, kind)),
        [(group, [one for one, _ in tests], mean_of([share for _, share in tests])) for group, tests in groups.items()],
        HeadText(scene.run.tokens, looks(kind, scene.run.tokens)).share(block, head),
    )  # fmt: skip


def test(scene: Scene, text: HeadText, block: int, head: int, share: float) -> Test:
    """One text; its share opens in its own run."""
    tokens, shown = list(text.tokens[1:]), formatted(share, "percent")
    number, at = Markup(shown), text.share(block, head)
    if at:
        state = scene.state.replace(text=scene.model.spelled(tokens), target="", bos=True, changes=())
        number = Numbers(scene.run, state, form="").shown(f"calc({at})", shown)
    return Test([scene.num.token(token) for token in tokens], number)


def mean_of(measured: list[float]) -> str:
    """The mean as arithmetic on the shares as they are measured."""
    return f"({'+'.join(f'{share:.9g}' for share in measured)})/{len(measured)}"


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
