"""Every head's attention pattern for the reader's sentence; one of them large, with its numbers."""

from __future__ import annotations

from typing import Literal

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.parts.base import Block, Head, Scene, Settings, View, live_part
from app.parts.numbers import Numbers
from app.render import heat, numbers
from model.study.head_texts import HeadText, looks, shares, texts_of
from model.study.heads import KINDS, HeadScores, kinds_of

MANY = 48  # heads; of larger models one block is shown at a time
MOST = 16  # positions of the large matrix
FINEST = 48  # cells of a small picture, either way
CLEAR = 0.4  # the share of attention from which a head is said to do something
SHADES = heat.Scale(1.0, 1.0)


@live_part("Every head at once", home="transformer#heads", rem=64)
class Heads(Settings):
    """Every head’s attention pattern for your sentence. Open one to see its numbers."""

    # The head shown large; left out, the clearest one of those measured. And which of its shares is opened.
    block: Block | None = None
    head: Head | None = None
    kind: Literal["", *KINDS] = ""  # type: ignore[valid-type]

    def view(self, scene: Scene) -> View:
        """`kinds` are what the head shown large does: kind, words, share of its attention."""
        c, scores = scene.model.config, scene.services.models.heads(scene.state.model)
        named = clearest(scores)
        block = self.block if self.block is not None else (named[0].block if named else 0)
        head = self.head if self.head is not None else (named[0].head if named and self.block is None else 0)
        by_place = {(each.block, each.head): each for each in scores}
        mine = by_place.get((block, head))
        one_block = c.n_layer * c.n_head > MANY
        first = max(0, scene.run.n_pos - MOST)
        positions = [*([0] if first else []), *range(first + (1 if first else 0), scene.run.n_pos)]
        return View(
            rows=[(b, pictures(scene, b, by_place)) for b in ([block] if one_block else range(c.n_layer))],
            one_block=one_block,
            block=block,
            head=head,
            named=named,
            kinds=[(kind, KINDS[kind], share_of(mine, kind)) for kind in kinds_of(mine, CLEAR)] if mine else [],
            opened=opened(scene, self.kind, mine),
            positions=positions,
            clear=CLEAR,
            cells=large(scene, block, head, positions),
            hidden=scene.run.n_pos - len(positions),
        )


def pictures(scene: Scene, block: int, by_place: dict[tuple[int, int], HeadScores]) -> list[View]:
    """A block's heads: each pattern as a small picture, and what the head does where that was measured."""
    patterns = scene.run.tensor(f"blocks.{block}.attn.pattern").numpy()
    return [
        View(head=head, picture=small(pattern), does=does(by_place.get((block, head))))
        for head, pattern in enumerate(patterns)
    ]


def small(pattern: NDArray[np.float32]) -> Markup:
    """The pattern as a small picture; of a long text, cells that share a pixel show their largest weight."""
    if len(pattern) > FINEST:
        edges = np.linspace(0, len(pattern), FINEST + 1).astype(int)[:-1]
        pattern = np.maximum.reduceat(np.maximum.reduceat(pattern, edges, 0), edges, 1)
    return heat.picture(SHADES.steps(pattern))


def large(scene: Scene, block: int, head: int, positions: list[int]) -> list[list[Markup]]:
    """The weights between some positions as numbers, nothing where the key comes after the query."""
    site = f"blocks.{block}.attn.pattern"
    pattern = scene.run.tensor(site).numpy()[head]
    steps = SHADES.steps(pattern)

    def cell(q: int, k: int) -> Markup:
        text, css = f"{100 * pattern[q, k]:.0f}", f"num heat-cell {heat.css(int(steps[q, k]))}"
        return scene.num.shown(f"{site}[{head},{q},{k}]", text, css=css)

    return [[cell(q, k) if k <= q else Markup("") for k in positions] for q in positions]


def opened(scene: Scene, kind: str, scores: HeadScores | None) -> View | None:
    """How one share of a head was measured, text by text; of several groups of texts the smaller mean counts.

    `here` is the same share in the reader's sentence, an expression; "" where nothing in it counts.
    """
    if not kind or scores is None or getattr(scores, kind) is None:
        return None
    texts = texts_of(scene.model, kind)
    measured = shares(scene.model.net, texts, scores.block, scores.head)
    groups: dict[str, list[View]] = {}
    for text, share in zip(texts, measured, strict=True):
        groups.setdefault(text.group, []).append(test(scene, text, scores, share))
    here = HeadText(scene.run.tokens, looks(kind, scene.run.tokens)).share(scores.block, scores.head)
    return View(kind=kind, words=KINDS[kind], share=share_of(scores, kind), groups=groups, here=here)


def test(scene: Scene, text: HeadText, scores: HeadScores, share: float) -> View:
    """One text that a share was measured on; it opens in its own run."""
    tokens, shown = list(text.tokens[1:]), numbers.formatted(share, "percent")
    number, at = Markup(shown), text.share(scores.block, scores.head)
    if at:
        state = scene.state.replace(text=scene.model.spelled(tokens), target="", bos=True, changes=())
        number = Numbers(scene.run, state, form="").shown(f"calc({at})", shown)
    return View(tokens=tokens, share=number, measured=f"{share:.9g}")


def clearest(scores: list[HeadScores]) -> list[View]:
    """For each kind that could be measured, the head that does it most, and how much of its attention that takes."""
    named = []
    for kind, words in KINDS.items():
        having = [each for each in scores if getattr(each, kind) is not None]
        if having:
            best = max(having, key=lambda each: share_of(each, kind))
            share = share_of(best, kind)
            named.append(View(kind=kind, words=words, block=best.block, head=best.head, share=share))
    return sorted(named, key=lambda each: -each.share)


def share_of(scores: HeadScores, kind: str) -> float:
    return float(getattr(scores, kind))


def does(scores: HeadScores | None) -> str:
    return ", ".join(KINDS[kind] for kind in kinds_of(scores, CLEAR)) if scores else ""
