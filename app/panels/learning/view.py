"""What a job of learning found: words, charts and tables in which every number leads on."""

from __future__ import annotations

import math

from markupsafe import Markup

from app.panels.learning.curve import curve, curve_says, curve_table
from app.panels.learning.moved import moved
from app.panels.learning.show import LearnedNumbers, after, difference
from app.render import charts, numbers
from app.render.curves import Line, by_step
from app.render.templating import Context
from app.request.state import State
from app.stores.learned import Learned
from model import Run

MOST_LINES = 5
ALL_STEPS = 20  # up to so many steps the table lists every one; beyond, later ones by fives
LINES = ("line-2", "line-3", "line-4", "line-5", "line-5")


def learn_view(run: Run, state: State, learned: Learned, form: str = "go") -> Context:
    """What `learn/_results.html` shows: `run` learned in the way that `state` says."""
    show = LearnedNumbers(run, state, learned, form)
    return {
        "eta": numbers.full(learned.rate.eta, 6),
        "is_adamw": learned.rate.optimizer == "adamw",
        "steps": learned.steps,
        "verdict": verdict(show),
        "curve": curve(show),
        "curve_says": curve_says(show),
        "points": curve_table(show),
        "losses": by_step(
            [Line("loss", learned.losses, "total")], None, None, f"The loss after each of {learned.steps} steps"
        ),
        "probabilities": probabilities(show),
        "steps_say": steps_say(show),
        "tokens": [show.token(token) for token in learned.tokens],
        "rows": step_rows(show),
        "shares": share_rows(show),
        "shares_say": shares_say(show),
        "rest": rest_of_shares(show),
        "n_rest": run.model.config.d_vocab - len(learned.changes),
        **moved(show),
    }


# -- what the steps did to the loss, in a sentence or three


def verdict(show: LearnedNumbers) -> Markup:
    learned, k = show.learned, show.k
    says = [_did(show, 1, "One step")]
    if k > 1:
        says.append(_did(show, k, f"{k} steps"))
    if show.target is not None and all(map(math.isfinite, learned.losses)):
        column = learned.tokens.index(show.target)
        ends = [show.probability(show.target, learned.probabilities[j][column], j, live=True) for j in (0, k)]
        says.append(Markup("The probability of {} goes from {} to {}.").format(show.token(show.target), *ends))
    return Markup(" ").join(says)


def _did(show: LearnedNumbers, j: int, who: str) -> Markup:
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


# -- step by step


def probabilities(show: LearnedNumbers) -> Markup:
    learned, tokenizer = show.learned, show.run.model.tokenizer
    lines = [
        Line(
            tokenizer.show(token),
            tuple(100 * row[n] for row in learned.probabilities),
            "total" if token == show.target else LINES[n],
        )
        for n, token in enumerate(learned.tokens[:MOST_LINES])
    ]
    return by_step(lines, 0.0, None, "The probabilities of the likeliest next tokens after each step", unit=" %")


def steps_say(show: LearnedNumbers) -> str:
    """Where a step did not lower the loss: counted, not promised."""
    losses = show.learned.losses
    raised = [j + 1 for j in range(show.k) if not losses[j + 1] <= losses[j]]
    same = [j + 1 for j in range(show.k) if losses[j + 1] == losses[j] != 0]
    ended = next((j for j in range(show.k) if losses[j] == losses[j + 1] == 0), None)
    says = []
    if raised:
        says.append(f"{_steps_named(raised)} did not lower the loss: η is large for this place.")
    if same:
        says.append(f"{_steps_named(same)} left the loss as it was.")
    if ended is not None:
        when = f"After step {ended} the" if ended else "The"
        says.append(f"{when} loss is 0 to float32’s last digit and cannot fall further.")
    if not says:
        return "Each step lowers the loss." if show.k > 1 else ""
    return " ".join(says)


def _steps_named(steps: list[int]) -> str:
    which = ", ".join(map(str, steps[:6])) + (" and later ones" if len(steps) > 6 else "")
    return f"{'Step' if len(steps) == 1 else 'Steps'} {which}"


def step_rows(show: LearnedNumbers) -> list[Context]:
    """The numbers after some steps: the loss, its change, and each followed token's probability."""
    learned = show.learned
    listed = [j for j in range(show.k + 1) if show.k <= ALL_STEPS or j <= ALL_STEPS // 2 or j % 5 == 0 or j == show.k]
    return [
        {
            "steps": j,
            "loss": show.loss(j),
            "change": _change(show, j) if j else Markup(""),
            "probabilities": [
                show.probability(token, p, j) for token, p in zip(learned.tokens, learned.probabilities[j], strict=True)
            ],
        }
        for j in listed
    ]


def _change(show: LearnedNumbers, j: int) -> Markup:
    at = difference(after("loss", j), after("loss", j - 1))
    change = show.learned.losses[j] - show.learned.losses[j - 1]
    return show.number(at, f"{'+' if change > 0 else ''}{numbers.value(change)}")


# -- where the target's share of the probability came from


def share_rows(show: LearnedNumbers) -> list[Context]:
    """Each token's probability before and after all steps."""
    changes = show.learned.changes
    most = numbers.largest(change.after - change.before for change in changes)
    return [
        {
            "token": show.token(c.token),
            "before": show.probability(c.token, c.before, 0),
            "after": show.probability(c.token, c.after, show.k),
            "change": show.moved(c.token, c.after - c.before),
            "bar": charts.signed_bar(c.after - c.before, most),
            "is_target": c.token == show.target,
        }
        for c in changes
    ]


def rest_of_shares(show: LearnedNumbers) -> Markup:
    """The change of all tokens that are not listed."""
    changes = show.learned.changes
    terms = "".join(f"+{show.probs(c.token)}-{after(show.probs(c.token), show.k)}" for c in changes)
    return show.number(f"calc(0{terms})", numbers.points(-sum(c.after - c.before for c in changes)))


def shares_say(show: LearnedNumbers) -> Markup:
    """Who gave the most to the target, if it gained."""
    if show.target is None:
        return Markup("The loss counts every position; these are the tokens after the last one.")
    changes = show.learned.changes
    if not any(c.token == show.target and c.after > c.before for c in changes):
        return Markup("{} gained nothing here.").format(show.token(show.target))
    giver = min((c for c in changes if c.after < c.before), key=lambda c: c.after - c.before, default=None)
    if giver is None:
        return Markup("")
    return Markup("What {} gains, others lose: {} lost the most, {} points.").format(
        show.token(show.target), show.token(giver.token), show.lost(giver.token, giver.before - giver.after)
    )
