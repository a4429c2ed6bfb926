"""A score for every word of the vocabulary, and what happens to the probabilities when all scores are shifted."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene

TOP = 8


class Settings(base.Settings):
    """What is added to every score."""

    add: float = Field(0.0, ge=-50, le=50)


@dataclass(frozen=True)
class Word:
    """Expressions: the shifted score, its distance to the first one, e to that distance, and the share."""

    token: Markup
    logit: str
    moved: str
    gap: str
    raised: str
    share: str
    width: float
    is_target: bool


@dataclass(frozen=True)
class View:
    words: list[Word]
    total: str
    shares: str
    t: int
    n_all: int
    gap: str
    ratio: str


def view(scene: Scene, s: Settings) -> View:
    run, t = scene.run, scene.last
    best = run.top(TOP)
    if not run.is_sequence and run.target not in dict(best):
        best.append((run.target, float(run.tensor("probs")[t, run.target])))
    first = f"logits[{t},{best[0][0]}]"
    by = f"+{_written(s.add)}" if s.add else ""
    row = f"logits[{t},:]{by}"
    words, total = [], f"sum(exp(({row})-({first}{by})))"
    for token, p in best:
        z = f"logits[{t},{token}]"
        raised = f"exp(({z}{by})-({first}{by}))"
        words.append(
            Word(scene.num.token(token), z, f"{z}{by}", f"({z}{by})-({first}{by})", raised,
                 f"{raised}/{total}", round(100 * p, 2),
                 token == run.target and not run.is_sequence)
        )  # fmt: skip
    second = f"logits[{t},{best[1][0]}]"
    return View(
        words, total, f"sum(exp(({row})-({first}{by}))/{total})", t, scene.model.config.d_vocab,
        f"{first}-{second}", f"exp({first}-{second})",
    )  # fmt: skip


def _written(x: float) -> str:
    return f"({x:g})" if x < 0 else f"{x:g}"


PART = Part(
    "math_words", "A score for every word", Settings, view, home="math#scores", rem=28,
    about="The largest scores, their gaps, and the probabilities they make. Add a constant to all: nothing moves.",
)  # fmt: skip
