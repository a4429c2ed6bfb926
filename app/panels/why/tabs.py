"""The quantities at one place, by name: its value, its gradient, its value after learning steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.panels import steps
from app.render import cost
from app.request.state import State
from model.address.parser import Address
from model.address.patch import NO_ADDITIONS

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node

NO_QUANTITY = "A token id is an address in the vocabulary, no quantity: it has no slope and takes no step"
CHANGED = "In a run with numbers set by you there are no slopes and no steps: take the changes away to see them"

LONG = "A text this long takes no steps: each would hold every number and its slope. Shorten it to see them"


@dataclass(frozen=True)
class Tab:
    """One quantity at this place: a URL, or the one shown (no URL), or why it cannot be had; what it costs, if much."""

    name: str
    url: str = ""
    reason: str = ""
    cost: str = ""


def title(node: Node, address: Address) -> str:
    if not address.quantity:
        return node.title
    name = f"{node.title[0].lower()}{node.title[1:]}"
    after = f", after {steps.in_words(address.step)}" if address.step is not None else ""
    what = {"grad": f"Gradient of {name}", "m": f"AdamW’s average slope of {name}",
            "v": f"AdamW’s average squared slope of {name}"}.get(address.kind, node.title)  # fmt: skip
    return what + after


def tabs(run: Run, state: State, node: Node | None, address: Address | None) -> tuple[Tab, ...]:
    """The quantities at one place: its value, the loss's slope along it, its value after learning steps."""
    if node is None or address is None:
        return ()
    here = {"": "Value", "grad": "Gradient"}.get(address.kind, "After a step")
    k = address.step or 0
    places = {
        "Value": steps.before(address),
        "Gradient": replace(address, quantity="grad"),
        "After a step": steps.stepped(address, max(k + (node.is_parameter and here == "Gradient"), 1)),
    }
    costs = {"Gradient": cost.of_slopes(run, 0 if node.part == "embed" else node.block)}
    reason = NO_QUANTITY if node.name == "tokens" else CHANGED if set(state.changes) - {NO_ADDITIONS} else ""
    return tuple(
        Tab(name)
        if name == here
        else Tab(name, "", reason or LONG)
        if (reason and name != "Value") or (run.is_long and name == "After a step")
        else Tab(name, state.turn(str(place)).url(), cost=costs.get(name, ""))
        for name, place in places.items()
    )
