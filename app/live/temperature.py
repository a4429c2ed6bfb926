"""Temperature: all logits divided by T before softmax, exact over the whole vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.live import base
from app.live.base import Part, Scene, formatted
from model.sample import MAX_TEMPERATURE

TOP = 10


class Settings(base.Settings):
    """The temperature."""

    temperature: float = Field(1.5, ge=0, le=MAX_TEMPERATURE)


@dataclass(frozen=True)
class Row:
    """A token: its logit's address, its probability at T = 1 and at this temperature."""

    shown: Markup
    logit: str
    plain: str
    tempered: Markup
    widths: tuple[float, float]


@dataclass(frozen=True)
class View:
    """`gap` is the first two tokens' difference in logits, `ratio` how many times as likely the first one is.

    `tokens_90` is how many tokens share nine tenths of the probability.
    """

    rows: list[Row]
    gap: str
    ratio: str
    tokens_90: int
    tokens_90_plain: int
    total: int


def view(scene: Scene, s: Settings) -> View:
    run, t = scene.run, scene.last
    choice = run.next(temperature=s.temperature)
    rows = []
    for v in choice.order[:TOP].tolist():
        p, plain = float(choice.tempered[v]), float(choice.probs[v])
        if s.temperature > 0:
            shown = scene.num.shown(tempered(t, v, s.temperature), formatted(p, "percent"))
        else:
            shown = Markup(formatted(p, "percent"))
        rows.append(
            Row(scene.num.token(v), f"logits[{t},{v}]", f"probs[{t},{v}]", shown,
                (round(100 * plain, 2), round(100 * p, 2)))
        )  # fmt: skip
    a, b = choice.order[:2].tolist()
    gap = f"logits[{t},{a}]-logits[{t},{b}]"
    ratio = f"exp(({gap})/{s.temperature:g})" if s.temperature > 0 else ""
    return View(
        rows, gap, ratio, sharing(choice.tempered[choice.order]), sharing(choice.probs[choice.order]),
        scene.model.config.d_vocab,
    )  # fmt: skip


def tempered(t: int, v: int, temperature: float) -> str:
    """A probability at a temperature as an expression: the largest logit goes first, so that nothing overflows."""
    row = f"logits[{t},:]-max(logits[{t},:])"
    return f"calc(exp((logits[{t},{v}]-max(logits[{t},:]))/{temperature:g})/sum(exp(({row})/{temperature:g})))"


def sharing(falling: np.ndarray[tuple[int, ...], np.dtype[np.float64]], part: float = 0.9) -> int:
    """How many of the likeliest tokens it takes to hold a part of the probability."""
    return int(np.searchsorted(np.cumsum(falling), part)) + 1


PART = Part(
    "temperature", "Temperature", Settings, view, home="transformer#temperature", rem=28,
    about="Divide all scores by a temperature and see how the probabilities sharpen or flatten.",
)  # fmt: skip
