"""The prediction that the loss scores, and what tokens cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.parts.numbers import Numbers
from app.render import numbers
from model import Run

SMALLEST = 1e-37  # of a probability below this float32 loses digits: it is taken from its logarithm


@dataclass(frozen=True)
class Aim:
    """The prediction after position `t`, and its right answer `token`. The loss is a mean over `n` predictions."""

    t: int
    token: int
    n: int

    @property
    def logit(self) -> str:
        return f"logits[{self.t},{self.token}]"

    @property
    def probability(self) -> str:
        return f"probs[{self.t},{self.token}]"

    @property
    def slopes(self) -> str:
        """∂loss/∂ every logit of this prediction."""
        return f"logits[{self.t},:].grad"


def aim(run: Run) -> Aim:
    """The last prediction that the loss counts: of the target, or of the sentence's own last token."""
    t = run.scored[-1]
    return Aim(t, run.next_token(t), len(run.scored))


def largest_slopes(slopes: NDArray[np.float32], goal: Aim, n: int) -> list[int]:
    """The right word first, then the n others whose scores have the largest slopes."""
    order = [int(token) for token in np.argsort(-np.abs(slopes), kind="stable")[: n + 1]]
    return [goal.token, *[token for token in order if token != goal.token][:n]]


def cost(run: Run, t: int, token: int) -> str:
    """−log p of a token as an expression."""
    is_tiny = float(run.tensor("probs")[t, token]) < SMALLEST
    return f"0-log_probs[{t},{token}]" if is_tiny else f"-log(probs[{t},{token}])"


def cost_of_first(n: int) -> str:
    """The cost of the first n predictions, as an expression."""
    return f"sum(loss_per_token[0:{n}])"


def chance_of_first(num: Numbers, n: int, total: float, css: str = "num") -> Markup:
    """The product of the first n probabilities as a link, shown also where no float could hold it.

    `total` is what they cost together.
    """
    power = -total / math.log(10)
    if power > -300:
        p = math.exp(-total)
        text = numbers.scientific(p) if p < 0.01 else numbers.fixed(p, 3)
        return num.shown(f"calc(exp(0-{cost_of_first(n)}))", text, css=css)
    shown = f"10{numbers.superscript(round(power))}"
    return num.link(f"calc({cost_of_first(n)}/log(10))", Markup(shown), css="live")
