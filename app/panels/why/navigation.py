"""Ways on from the number shown: the numbers followed to it, the other quantities at its place, its terms' pages.

Each is words with a URL; none where the reader is, or where it cannot be had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from app.panels import steps
from app.panels.why import names as why_names
from app.panels.why.terms import PAGE
from app.render import cost, numbers
from app.render.numbers import short
from app.render.templating import Context
from app.request.state import State
from app.server.prefix import Url
from model.address.parser import Address, parse
from model.address.patch import NO_ADDITIONS
from model.errors import ReaderError
from model.explain.terms import Order

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node
    from model.explain.explanation import Explanation

LONG_TRAIL, FEW_STEPS = 5_000, 5  # bytes of all the trail's links; how many steps are shown past that
ORDERS: tuple[Order, ...] = ("size", "index")

NO_QUANTITY = "A token id is an address in the vocabulary, no quantity: it has no slope and takes no step"
CHANGED = "In a run with numbers set by you there are no slopes and no steps: take the changes away to see them"
LONG = "A text this long takes no steps: each would hold every number and its slope. Shorten it to see them"

Choice = tuple[str, str]


# -- the trail


def trail(run: Run, state: State) -> list[Context]:
    """The addresses followed, with their values; one that means nothing in this run is left out.

    Each step's link repeats the text: of a long text, only the last few steps are shown.
    """
    followed = [(at, state.back(n).url()) for n, at in enumerate(state.trail)]
    if sum(len(url) for _, url in followed) > LONG_TRAIL:
        followed = followed[-FEW_STEPS:]
    found = []
    for at, url in [*followed, (state.at, Url(""))]:
        try:
            crumb = {"name": why_names.word(run, at), "value": value_of(run, at), "address": at, "url": url}
        except ReaderError:
            continue
        found.append(crumb)
    return found


def value_of(run: Run, at: str) -> str:
    """The value of one number in few figures, nothing for more than one, or where it would take steps first."""
    parsed = parse(at)
    if steps.must_wait(run, at):
        return ""
    if isinstance(parsed, Address) and not run.check(parsed).is_single:
        return ""
    x = run.values(parsed) if isinstance(parsed, Address) else run.values(at)
    return short(float(x)) if np.ndim(x) == 0 else ""


# -- the quantities at one place


def title(node: Node, address: Address) -> str:
    if not address.quantity:
        return node.title
    name = f"{node.title[0].lower()}{node.title[1:]}"
    after = f", after {steps.in_words(address.step)}" if address.step is not None else ""
    what = {"grad": f"Gradient of {name}", "m": f"AdamW’s average slope of {name}",
            "v": f"AdamW’s average squared slope of {name}"}.get(address.kind, node.title)  # fmt: skip
    return what + after


def tabs(run: Run, state: State, node: Node | None, address: Address | None) -> list[Context]:
    """The quantities at one place: its value, the loss's slope along it, its value after learning steps."""
    if node is None or address is None:
        return []
    here = {"": "Value", "grad": "Gradient"}.get(address.kind, "After a step")
    k = address.step or 0
    places = {
        "Value": steps.before(address),
        "Gradient": replace(address, quantity="grad"),
        "After a step": steps.stepped(address, max(k + (node.is_parameter and here == "Gradient"), 1)),
    }
    costs = {"Gradient": cost.of_slopes(run, 0 if node.part == "embed" else node.block)}
    reason = NO_QUANTITY if node.name == "tokens" else CHANGED if set(state.changes) - {NO_ADDITIONS} else ""
    found = []
    for name, place in places.items():
        is_there = name != here and not (reason and name != "Value") and not (run.is_long and name == "After a step")
        url = state.turn(str(place)).url() if is_there else ""
        why_not = "" if is_there or name == here else reason or LONG
        found.append({"name": name, "url": url, "reason": why_not, "cost": costs.get(name, "") if is_there else ""})
    return found


# -- the terms' order and pages


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
