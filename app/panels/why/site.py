"""The why panel of a whole site or part of one: what its numbers are, and numbers to start from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from app.panels.why import names as why_names
from app.panels.why import steps as why_steps
from app.panels.why.ends import Linked, linked
from app.panels.why.links import Links
from app.panels.why.navigation import title, trail
from app.panels.why.panel import MOST_READERS, WhyView, hidden
from app.render import formulas
from app.render.tokens import sentence_html
from app.request.state import State
from model.address.parser import Address
from model.explain.explain import SLOPE
from model.explain.gradients import gradient_formula
from model.ops.update import step_formula

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node

LARGEST_SEARCHED = 4_000_000  # numbers; in larger tensors the largest is not looked for
EXTREMES = (("largest", np.nanargmax), ("smallest", np.nanargmin))


def site_view(run: Run, state: State, links: Links, node: Node, address: Address) -> WhyView:
    """A site or part of one: what its numbers are, the first one's formula, and numbers to start from."""
    first = tuple(i if isinstance(i, int) else (i.start or 0) for i in address.index)
    graph = run.model.graph
    consumers = list(dict.fromkeys(reader.name for reader in graph.consumers(node.name)))
    left, *rights = formulas.sides(_written(run, node, address, first))
    return WhyView(
        title=title(node, address),
        address=str(address),
        whereabouts=why_names.whereabouts(run, address),
        sentence=sentence_html(run, SLOPE if address.kind == "grad" else node.op.plain(run, first)),
        trail=trail(run, state),
        formula=formulas.table(formulas.symbolic(left, rights) if rights else [(left, "")]),
        hidden=hidden(links),
        made_from=[(links.code(site), "") for site in node.op.reads],
        used_by=[(links.code(site), "") for site in consumers[:MOST_READERS]],
        more_readers=max(len(consumers) - MOST_READERS, 0),
        places=_places(run, address, first, links),
    )


def _written(run: Run, node: Node, address: Address, first: tuple[int, ...]) -> str:
    """The formula of a site's first number."""
    if address.kind == "grad":
        return gradient_formula(run, node, first)
    symbol = node.op.formula(run, first)
    if address.kind in ("m", "v"):
        return why_steps.moment_formula(address.kind, address.step or 0)
    if address.kind == "step" and node.is_parameter:
        return step_formula(run.rate, symbol.split(" = ")[0], address.step or 0)
    return symbol


def _places(run: Run, address: Address, first: tuple[int, ...], links: Links) -> list[tuple[str, Linked]]:
    """Numbers to begin with: the first, and the largest and smallest where they are quick to find."""
    chosen = [("first", first)]
    size = run.tensor(address.site)[address.index].numel()
    if 1 < size <= LARGEST_SEARCHED:
        values = run.values(address)
        chosen += [(name, _absolute(address, int(find(values)), values.shape)) for name, find in EXTREMES]
    found = [(name, str(replace(address, index=place))) for name, place in chosen]
    return [(name, linked(run, at, "", links)) for name, at in found]


def _absolute(address: Address, flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The place in the whole site of the `flat`-th number of a slice of it."""
    inside = iter(np.unravel_index(flat, shape))
    return tuple(i if isinstance(i, int) else int(next(inside)) + (i.start or 0) for i in address.index)
