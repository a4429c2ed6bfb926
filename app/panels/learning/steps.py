"""Step by step: the loss and the likeliest tokens after each."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from app.panels.learning.numbers import (
    Show,
    after,
    difference,
    signed,
)
from app.render.curves import Line, by_step

MOST_LINES = 5
ALL_STEPS = 20  # up to so many steps the table lists every one; beyond, later ones by fives
LINES = ("line-2", "line-3", "line-4", "line-5", "line-5")


@dataclass(frozen=True)
class StepRow:
    """The numbers after some steps: the loss, its change, and each followed token's probability."""

    steps: int
    loss: Markup
    change: Markup
    probabilities: tuple[Markup, ...]


def probabilities(show: Show) -> Markup:
    learned, tokenizer = show.learned, show.run.model.tokenizer
    lines = []
    for n, token in enumerate(learned.tokens[:MOST_LINES]):
        values = tuple(100 * row[n] for row in learned.probabilities)
        is_target = not show.run.is_sequence and token == show.run.target
        lines.append(Line(tokenizer.show(token), values, "total" if is_target else LINES[n]))
    return by_step(lines, 0.0, None, "The probabilities of the likeliest next tokens after each step", unit=" %")


def steps_say(show: Show) -> Markup:
    """Where a step did not lower the loss: counted, not promised."""
    losses = show.learned.losses
    raised = [j + 1 for j in range(show.k) if not losses[j + 1] <= losses[j]]
    same = [j + 1 for j in range(show.k) if losses[j + 1] == losses[j] != 0]
    ended = next((j for j in range(show.k) if losses[j] == losses[j + 1] == 0), None)
    says = []
    if raised:
        says.append(Markup("{} did not lower the loss: η is large for this place.").format(_steps_named(raised)))
    if same:
        says.append(Markup("{} left the loss as it was.").format(_steps_named(same)))
    if ended is not None:
        when = Markup("After step {} the").format(ended) if ended else Markup("The")
        says.append(Markup("{} loss is 0 to float32’s last digit and cannot fall further.").format(when))
    if not says:
        return Markup("Each step lowers the loss." if show.k > 1 else "")
    return Markup(" ").join(says)


def _steps_named(steps: list[int]) -> str:
    which = ", ".join(map(str, steps[:6])) + (" and later ones" if len(steps) > 6 else "")
    return f"{'Step' if len(steps) == 1 else 'Steps'} {which}"


def rows(show: Show) -> list[StepRow]:
    learned = show.learned
    found = []
    for j, (loss, row) in enumerate(zip(learned.losses, learned.probabilities, strict=True)):
        if show.k > ALL_STEPS and not (j <= ALL_STEPS // 2 or j % 5 == 0 or j == show.k):
            continue
        change = Markup("")
        if j:
            at = difference(after("loss", j), after("loss", j - 1))
            change = show.short.number(at, signed(loss - learned.losses[j - 1]))
        probabilities = (show.probability(token, p, j) for token, p in zip(learned.tokens, row, strict=True))
        found.append(StepRow(j, show.loss(j), change, tuple(probabilities)))
    return found
