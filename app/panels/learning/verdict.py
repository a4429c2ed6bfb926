"""What the steps did to the loss, in one sentence."""

from __future__ import annotations

import math

from markupsafe import Markup

from app.panels.learning.numbers import Show


def verdict(show: Show) -> Markup:
    learned, k = show.learned, show.k
    parts = [_did(show, 1, "One step")]
    if k > 1:
        parts.append(_did(show, k, f"{k} steps"))
    if not show.run.is_sequence and all(map(math.isfinite, learned.losses)):
        target = show.run.target
        column = learned.tokens.index(target)
        before, later = learned.probabilities[0][column], learned.probabilities[k][column]
        parts.append(
            Markup("The probability of {} goes from {} to {}.").format(
                show.token(target),
                show.probability(target, before, 0, live=True),
                show.probability(target, later, k, live=True),
            )
        )
    return Markup(" ").join(parts)


def _did(show: Show, j: int, who: str) -> Markup:
    """What j steps did to the loss, as measured."""
    before, later = show.learned.losses[0], show.learned.losses[j]
    s = "s" if j == 1 else ""
    start, end = show.loss(0, live=True), show.loss(j, live=True)
    if not math.isfinite(later):
        return Markup("{} of this size break{} the network: the loss is {}.").format(who, s, end)
    if later == before:
        return Markup("{} leave{} the loss at {}.").format(who, s, end)
    word = "lower" if later < before else "raise"
    if j == 1:
        return Markup("{} {}s the loss from {} to {}.").format(who, word, start, end)
    return Markup("{} {} it to {}.").format(who, word, end)
