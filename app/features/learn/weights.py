"""One weight before and after its steps, and the weights of its matrix with the steepest slopes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from app.panels.values.summary import largest_first
from app.render.links import Links
from app.render.templating import Context
from app.request.state import State
from model import Run
from model.address.parser import Address, Index, parse
from model.ops.linear import View

MOVERS = 10
CHUNK = 1 << 20  # numbers of a slope held at once


def weights_view(run: Run, state: State) -> Context:
    """The weight or matrix at `state.at`; without one, the last block's way out of its neurons. Raises AddressError."""
    asked = chosen(run, state.at)
    top = steepest(run, asked.site)
    here = asked if asked.index and asked.is_single else top[0]
    links = Links(state)
    links.as_buttons = True
    return {
        "node": run.model.graph[here.site],
        "links": links,
        "here": here,
        "rows": [_row(run, state, at) for at in ([] if here in top else [here]) + top],
        "n_steepest": len(top),
        "choices": choices(run),
        "n": prod(run.shape(here.site)),
        "step": _step(run, here),
    }


def chosen(run: Run, at: str) -> Address:
    """The parameter's address; where `at` is of another kind, the one shown by default. Raises AddressError."""
    usual = Address(f"blocks.{run.model.config.n_layer - 1}.mlp.W_out")
    address = parse(at) if at else usual
    if not isinstance(address, Address):
        address = usual
    address = replace(address, quantity="")
    if not run.model.graph[address.site].is_parameter:
        address = usual
    if isinstance(view := run.model.graph[address.site].op, View):
        address = view.behind(run.check(address) if address.index else address)
    return run.check(address) if address.index else address


def steepest(run: Run, site: str) -> list[Address]:
    """The places with the largest slopes, largest first."""
    shape = run.shape(site)
    largest: list[tuple[float, tuple[int, ...]]] = []
    for start, index in _chunks(shape):
        slopes = np.abs(np.nan_to_num(run.part(site, index, "grad").numpy()))
        flat = slopes.ravel()
        for n in largest_first(flat, MOVERS):
            place = [int(i) for i in np.unravel_index(n, slopes.shape)]
            largest.append((float(flat[n]), (place[0] + start, *place[1:])))
    largest.sort(key=lambda pair: (-pair[0], pair[1]))
    return [Address(site, place) for _, place in largest[:MOVERS]]


def _chunks(shape: tuple[int, ...]) -> Iterator[tuple[int, tuple[Index, ...]]]:
    """The whole tensor in slices of its first axis, each of bounded size."""
    rows = max(1, CHUNK // max(1, prod(shape[1:])))
    for start in range(0, shape[0], rows):
        yield start, (slice(start, min(start + rows, shape[0])), *(slice(None),) * (len(shape) - 1))


def _row(run: Run, state: State, at: Address) -> tuple[Address, list[tuple[Address, float]]]:
    """One weight's place and its numbers: before, its slope, after one step and after all."""
    numbers = [replace(at, quantity=quantity) for quantity in ("", "grad", "step", f"step({state.steps})")]
    return at, [(number, float(run.values(number))) for number in numbers]


def _step(run: Run, at: Address) -> Context:
    """How far the chosen weight went in one step, and its slope."""
    slope, before, after = (float(run.values(replace(at, quantity=quantity))) for quantity in ("grad", "", "step"))
    return {"slope": slope, "way": after - before, "at": f"calc({at}.step-{at})"}


def choices(run: Run) -> dict[str, list[str]]:
    """Every parameter's name under its block's."""
    nodes = [node for node in run.model.graph.parameters if not node.is_view]
    blocks = {f"block {n}": [node.name for node in nodes if node.block == n] for n in range(run.model.config.n_layer)}
    return {"outside the blocks": [node.name for node in nodes if node.block is None]} | blocks
