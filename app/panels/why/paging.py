"""Moving through the terms of the why panel: their order and their pages, as words with a URL (none: where one is)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.panels.why.terms import PAGE
from app.render import numbers
from app.request.state import State
from model.explain.terms import Order

if TYPE_CHECKING:
    from model.explain.explanation import Explanation

Choice = tuple[str, str]
ORDERS: tuple[Order, ...] = ("size", "index")


def orders(state: State, e: Explanation) -> tuple[Choice, ...]:
    if e.n_terms < 3 or e.combine == "given":
        return ()
    return tuple((f"by {order}", "" if e.order == order else state.terms(order=order).url()) for order in ORDERS)


def pager(state: State, e: Explanation) -> tuple[Choice, ...]:
    before, after = e.offset - PAGE, e.offset + PAGE
    found = [("‹ previous", state.terms(offset=before).url())] if e.offset > 0 else []
    return tuple(found + ([("next ›", state.terms(offset=after).url())] if after < e.n_terms else []))


def page(e: Explanation) -> str:
    if e.n_terms <= PAGE and not e.offset:
        return ""
    on_top = int(e.combine == "quotient")  # the numerator comes first and is not counted
    first, last, n = max(e.offset + 1 - on_top, 1), e.offset + len(e.terms) - on_top, e.n_terms - on_top
    if not e.terms:
        return f"no terms from {numbers.count(first)} on: there are {numbers.count(n)}"
    return f"{numbers.count(first)}–{numbers.count(last)} of {numbers.count(n)}"
