"""Moving through the terms of the why panel: their order and their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.panels.why.terms import PAGE
from app.render import numbers
from app.request.state import State

if TYPE_CHECKING:
    from model.explain.explanation import Explanation


@dataclass(frozen=True)
class Choice:
    """A link of the terms' navigation; no URL: the one chosen."""

    text: str
    url: str = ""


def orders(state: State, e: Explanation) -> tuple[Choice, ...]:
    if e.n_terms < 3 or e.combine == "given":
        return ()
    return (
        Choice("by size", "" if e.order == "size" else state.terms(order="size").url()),
        Choice("by index", "" if e.order == "index" else state.terms(order="index").url()),
    )


def pager(state: State, e: Explanation) -> tuple[Choice, ...]:
    found = []
    if e.offset > 0:
        found.append(Choice("‹ previous", state.terms(offset=e.offset - PAGE).url()))
    if e.offset + PAGE < e.n_terms:
        found.append(Choice("next ›", state.terms(offset=e.offset + PAGE).url()))
    return tuple(found)


def page(e: Explanation) -> str:
    if e.n_terms <= PAGE and not e.offset:
        return ""
    on_top = int(e.combine == "quotient")  # the numerator comes first and is not counted
    first, last, n = max(e.offset + 1 - on_top, 1), e.offset + len(e.terms) - on_top, e.n_terms - on_top
    if not e.terms:
        return f"no terms from {numbers.count(first)} on: there are {numbers.count(n)}"
    return f"{numbers.count(first)}–{numbers.count(last)} of {numbers.count(n)}"
