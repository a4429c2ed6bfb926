"""Temperature: all logits divided by T before softmax, exact over the whole vocabulary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.render import numbers
from model.runtime.choice_address import ChoiceAddress
from model.runtime.sample import MAX_TEMPERATURE, Choice

TOP = 10


@live_part("Temperature", home="transformer#temperature", rem=28)
class Temperature(Settings):
    """Divide all scores by a temperature and see how the probabilities sharpen or flatten."""

    temperature: float = Field(1.5, ge=0, le=MAX_TEMPERATURE)

    def view(self, scene: Scene) -> View:
        """`gap` is the first two tokens' difference in logits, `ratio` how many times as likely the first one is.

        `tokens_90` is how many tokens share nine tenths of the probability. Expressions, all of them.
        """
        choice = scene.run.next(temperature=self.temperature)
        at = ChoiceAddress(choice)
        top = choice.order[:TOP].tolist()
        gap = f"logits[{choice.t},{top[0]}]-logits[{choice.t},{top[1]}]"
        tempered = {
            v: scene.num.shown(at.tempered(v), numbers.formatted(float(choice.tempered[v]), "percent")) for v in top
        }
        return View(
            t=choice.t,
            rows=[(v, tempered[v], (float(choice.probs[v]), float(choice.tempered[v]))) for v in top],
            gap=gap,
            ratio=f"exp(({gap})/{self.temperature:g})" if self.temperature > 0 else "",
            tokens_90=sharing(choice, choice.tempered),
            tokens_90_plain=sharing(choice, choice.probs),
        )


def sharing(choice: Choice, probs: NDArray[np.float64], part: float = 0.9) -> str:
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
