"""One weight before and after its steps, and the weights of its matrix with the steepest slopes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from markupsafe import Markup

from app.render import numbers
from app.render.links import Links
from app.render.numbers import exact
from app.request.state import State
from model import Run
from model.address.parser import Address, Index, parse
from model.ops.linear import View

MOVERS = 10
CHUNK = 1 << 20  # numbers of a slope held at once


@dataclass(frozen=True)
class WeightRow:
    """One weight: its place (which chooses it), its value before, its slope, its value after one step and after all."""

    place: Markup
    before: Markup
    slope: Markup
    one: Markup
    all: Markup
    is_here: bool


@dataclass(frozen=True)
class WeightsView:
    """The chosen weight and the steepest ones beside it. `choices` are the parameters to choose from, by group."""

    at: str
    site: str
    title: str
    here: WeightRow
    movers: tuple[WeightRow, ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    n: int
    moves: Markup


def weights_view(run: Run, state: State) -> WeightsView:
    """The weight or matrix at `state.at`; without one, the last block's way out of its neurons. Raises AddressError."""
    asked = chosen(run, state.at)
    top = steepest(run, asked.site)
    here = asked if asked.index and asked.is_single else top[0]
    cells = Links(state)
    cells.as_buttons = True
    return WeightsView(
        at=str(here),
        site=here.site,
        title=run.model.graph[here.site].title,
        here=_row(run, state, cells, here, here),
        movers=tuple(_row(run, state, cells, one, here) for one in top),
        choices=tuple(_choices(run)),
        n=prod(run.shape(here.site)),
        moves=_moves(run, state, cells, here),
    )


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
    found: list[tuple[float, tuple[int, ...]]] = []
    for start, index in _chunks(shape):
        slopes = np.abs(np.nan_to_num(run.part(site, index, "grad").numpy()))
        flat = slopes.ravel()
        best = np.argsort(-flat, kind="stable")[:MOVERS] if flat.size <= MOVERS else _largest(flat)
        for n in best.tolist():
            place = [int(i) for i in np.unravel_index(n, slopes.shape)]
            found.append((float(flat[n]), (place[0] + start, *place[1:])))
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    return [Address(site, place) for _, place in found[:MOVERS]]


def _largest(flat: np.ndarray) -> np.ndarray:
    some = np.argpartition(-flat, MOVERS - 1)[:MOVERS]
    return some[np.lexsort((some, -flat[some]))]


def _chunks(shape: tuple[int, ...]) -> Iterator[tuple[int, tuple[Index, ...]]]:
    """The whole tensor in slices of its first axis, each of bounded size."""
    rows = max(1, CHUNK // max(1, prod(shape[1:])))
    for start in range(0, shape[0], rows):
        yield start, (slice(start, min(start + rows, shape[0])), *(slice(None),) * (len(shape) - 1))


def _row(run: Run, state: State, cells: Links, at: Address, here: Address) -> WeightRow:
    place = Markup('<button form="to-weight" name="at" value="{}" class="num"{}><code>[{}]</code></button>').format(
        at, Markup(' aria-current="true"') if at == here else "", ",".join(map(str, at.index))
    )

    def number(quantity: str) -> Markup:
        address = replace(at, quantity=quantity)
        return cells.number(str(address), figures(float(run.values(address))))

    return WeightRow(place, number(""), number("grad"), number("step"), number(f"step({state.steps})"), at == here)


def figures(x: float) -> str:
    """Four figures, the last ones kept though they be 0, so that before and after can be compared."""
    if x == 0 or not 1e-4 <= abs(x) < 1e4:
        return numbers.value(x)
    return numbers.fixed(x, max(0, 3 - math.floor(math.log10(abs(x)))))


def _moves(run: Run, state: State, cells: Links, at: Address) -> Markup:
    """Which way the chosen weight went in one step, and why."""
    slope, before, later = (float(run.values(replace(at, quantity=q))) for q in ("grad", "", "step"))
    if later == before:
        return Markup("Its slope is too small to move it in float32." if slope else "Its slope is 0, so it stays.")
    way = "up" if later > before else "down"
    why = "falls" if (slope < 0) == (later > before) else "rises"
    moved = cells.number(f"calc({at}.step-{at})", _plus(later - before), css="num live")
    return Markup("One step moves it {} by {}, the way along which the loss {}.").format(way, moved, why)


def _plus(x: float) -> str:
    return numbers.scientific(x) if abs(x) < 1e-3 else exact(x)


def _choices(run: Run) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every parameter's name under its block's."""
    nodes = [node for node in run.model.graph.parameters if not node.is_view]
    yield "outside the blocks", tuple(node.name for node in nodes if node.block is None)
    for n in range(run.model.config.n_layer):
        yield f"block {n}", tuple(node.name for node in nodes if node.block == n)
