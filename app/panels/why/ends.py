"""Where a number comes from and where it goes: what its terms read, its readers, and what no other number makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from app.panels import steps
from app.panels.why import names as why_names
from app.panels.why.links import Links
from app.panels.why.navigation import value_of
from app.render.charts import Ints
from model.address.parser import Address, Calc
from model.errors import ReaderError
from model.explain.expression import expression_rule, rule_of
from model.ops.base import Column, Computed, Ref, refs_in

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node
    from model.explain.explanation import Explanation

LONGEST = 48  # characters of an address shown as a link


End = tuple[str, str]  # where a number comes from that no other number of the run makes: in a few words, and in more


Linked = tuple[Markup, str]  # an address as a link, and its value where it is one number


def end(node: Node, address: Address, e: Explanation) -> End:
    here = "the chain ends here"
    if e.kind == "set":
        return f"From you: {here}", " ".join(e.notes)
    if address.kind == "grad":
        return f"The slope of the loss along itself: {here}", "Every other slope is counted from this one."
    if node.is_parameter:
        once = (
            "Training set this number once. Every run of this model reads the same value; nothing in this run made it."
        )
        return f"From training: {here}", once
    return f"From the text: {here}", "The tokenizer turned what was typed into this id."


def made_from(run: Run, parsed: Address | Calc | None, e: Explanation) -> list[str]:
    """What the terms read, as whole rows where a term runs along one; nothing for a number that the reader set."""
    if e.kind == "set":
        return []
    if isinstance(parsed, Address) and parsed.kind == "step" and run.rate.optimizer == "adamw" and parsed.step:
        k = parsed.step
        before = steps.stepped(parsed, k - 1) if k > 1 else steps.before(parsed)
        return [str(before), *(str(replace(parsed, quantity=f"{moment}({k})")) for moment in "mv")]
    try:
        rule = rule_of(run, parsed) if isinstance(parsed, Address) else expression_rule(run, parsed)  # type: ignore[arg-type]
    except ReaderError:  # a quantity whose rule only `explain` knows: what the listed terms read
        found = [factor.address for term in e.terms for factor in term.factors if factor.address]
    else:
        found = [at for group in rule.groups for column in group.factors for at in _sources(run, column)]
    return list(dict.fromkeys(found))


def _sources(run: Run, column: Column) -> list[str]:
    if isinstance(column, Computed):
        return [column.address(0)] if np.ndim(column.value) == 0 else []
    return [_row_of(run, ref) for ref in refs_in(column)]


def _row_of(run: Run, ref: Ref) -> str:
    places = zip(ref.index, run.shape(ref.site), strict=True)
    return str(Address(ref.site, tuple(_whole(i, n) for i, n in places), ref.quantity))


def _whole(i: int | Ints, size: int) -> int | slice:
    """The places of a column on one axis as an index: `:` where it runs over all of it."""
    if np.ndim(i) == 0:
        return int(i)
    first, last = int(np.min(i)), int(np.max(i))
    return slice(None) if (first, last) == (0, size - 1) else slice(first, last + 1)


def linked(run: Run, at: str, here: str, links: Links) -> Linked:
    shown = why_names.short(run, at, here) if not at.startswith("calc(") else at
    name = Markup("<code>{}</code>").format(shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 2]}…)")
    return links.to(at, name, css="", title=at), value_of(run, at)
