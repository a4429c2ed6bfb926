"""Where the target’s share of the probability came from."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from app.panels.learning.numbers import (
    Show,
    after,
    difference,
    points,
)
from app.render import charts, numbers


@dataclass(frozen=True)
class ShareRow:
    """One token's probability before and after all steps."""

    token: Markup
    before: Markup
    after: Markup
    change: Markup
    bar: Markup
    is_target: bool


def shares(show: Show) -> tuple[list[ShareRow], Markup]:
    learned, k = show.learned, show.k
    most = numbers.largest([change.after - change.before for change in learned.changes])
    rows = []
    for c in learned.changes:
        at = f"probs[{show.last},{c.token}]"
        rows.append(
            ShareRow(
                token=show.token(c.token),
                before=show.probability(c.token, c.before, 0),
                after=show.probability(c.token, c.after, k),
                change=show.short.number(difference(after(at, k), at), points(c.after - c.before)),
                bar=charts.signed_bar(c.after - c.before, most),
                is_target=not show.run.is_sequence and c.token == show.run.target,
            )
        )
    rest = -sum(c.after - c.before for c in learned.changes)
    terms = "".join(f"+probs[{show.last},{c.token}]-probs[{show.last},{c.token}].step({k})" for c in learned.changes)
    return rows, show.short.number(f"calc(0{terms})", points(rest))


def shares_say(show: Show) -> Markup:
    """Who gave the most to the target, if it gained."""
    learned = show.learned
    if show.run.is_sequence:
        return Markup("The loss counts every position; these are the tokens after the last one.")
    target = next((c for c in learned.changes if c.token == show.run.target), None)
    if target is None or not target.after > target.before:
        return Markup("{} gained nothing here.").format(show.token(show.run.target))
    losers = [c for c in learned.changes if c.after < c.before]
    giver = min(losers, key=lambda c: c.after - c.before, default=None)
    if giver is None:
        return Markup("")
    return Markup("What {} gains, others lose: {} lost the most, {} points.").format(
        show.token(target.token),
        show.token(giver.token),
        show.cells.number(
            difference(f"probs[{show.last},{giver.token}]", after(f"probs[{show.last},{giver.token}]", show.k)),
            points(giver.before - giver.after).removeprefix("+"),
            css="num live",
        ),
    )
