"""Temperature: all logits divided by T before softmax, exact over the whole vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene, formatted
from model.runtime.choice_address import ChoiceAddress
from model.runtime.sample import MAX_TEMPERATURE, Choice

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

    `tokens_90` is how many tokens share nine tenths of the probability, an expression.
    """

    rows: list[Row]
    gap: str
    ratio: str
    tokens_90: str
    tokens_90_plain: str
    total: int


def view(scene: Scene, s: Settings) -> View:
    run, t = scene.run, scene.last
    choice = run.next(temperature=s.temperature)
    at = ChoiceAddress(choice)
    rows = [
        Row(scene.num.token(v), f"logits[{t},{v}]", f"probs[{t},{v}]",
            scene.num.shown(at.tempered(v), formatted(float(choice.tempered[v]), "percent")),
            (round(100 * float(choice.probs[v]), 2), round(100 * float(choice.tempered[v]), 2)))
        for v in choice.order[:TOP].tolist()
    ]  # fmt: skip
    a, b = choice.order[:2].tolist()
    gap = f"logits[{t},{a}]-logits[{t},{b}]"
    ratio = f"exp(({gap})/{s.temperature:g})" if s.temperature > 0 else ""
    return View(
        rows, gap, ratio, sharing(choice, choice.tempered), sharing(choice, choice.probs), scene.model.config.d_vocab
    )


def sharing(choice: Choice, probs: np.ndarray[tuple[int, ...], np.dtype[np.float64]], part: float = 0.9) -> str:
    """How many of the likeliest tokens it takes to hold a part of the probability, as an expression.

    Counted are the logits above the middle between the last that it takes and the next; of equal ones, how many.
    """
    n = int(np.searchsorted(np.cumsum(probs[choice.order]), part)) + 1
    if n >= len(choice.order):
        return f"{len(choice.order)}"
    last, following = choice.order[n - 1 : n + 1].tolist()
    row = f"logits[{choice.t},{{}}]"
    if choice.logits[last] == choice.logits[following]:
        return f"{n}"
    middle = f"({row.format(last)}+{row.format(following)})/2"
    return f"sum(positive({row.format(':')}-{middle}))"


PART = Part(
    "temperature", "Temperature", Settings, view, home="transformer#temperature", rem=28,
    about="Divide all scores by a temperature and see how the probabilities sharpen or flatten.",
)  # fmt: skip
