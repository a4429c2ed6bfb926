"""Finite differences beside a slope: the loss really run again with the number moved, and how far to trust that."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from app.panels import steps
from app.panels.why.links import Links
from app.render import charts, numbers
from app.render.cost import of_passes
from app.render.numbers import exact
from app.render.places import moved
from app.render.templating import Context
from app.request.page_state import written
from app.request.state import State
from app.server.process import is_large
from model.address.parser import Address, parse
from model.errors import ReaderError
from model.ops.linear import View
from model.runtime.nudge import FEW, SIZES, Nudge, nudges

if TYPE_CHECKING:
    from model import Run

FIRST = 1.0  # the distance that the link asks for; it is one of the usual ones
FEWER = (0.1, 0.01, 1e-3)  # the usual distances of a large model


def nudge_view(run: Run, state: State, address: Address, links: Links) -> Context:
    """What the panel of a slope says of nudging its number: why it cannot be nudged, an offer, or the answer."""
    place = steps.before(address)
    refused = _refused(run, address, place, links)
    if refused:
        return refused
    if state.nudge is None:
        n = 2 * len(_sizes(run, FIRST))
        return {"url": state.replace(nudge=FIRST).url(), "passes": n, "cost": of_passes(run, n)}
    found = nudges(run, str(place), _sizes(run, state.nudge))
    return {
        "rows": [_row(state, place, nudge) for nudge in found],
        "slope": exact(found[0].slope),
        **_verdict(found),
        "chart": _chart(found),
        "hidden": [(name, value) for name, value in state_fields(state) if name != "nudge"],
        "size": written(state.nudge),
    }


def state_fields(state: State) -> list[tuple[str, str]]:
    """The whole state as a form's fields."""
    return [*state.page_query, ("at", state.at), *state.view_query]


def _sizes(run: Run, chosen: float) -> tuple[float, ...]:
    """The usual distances and the one chosen, largest first."""
    usual = FEWER if is_large(run.model.n_parameters) else SIZES
    return tuple(sorted({*usual, chosen}, reverse=True))


def _refused(run: Run, address: Address, place: Address, links: Links) -> Context | None:
    """Why this number cannot be moved by itself, and a number that can."""
    node = run.model.graph[place.site]
    if address.step:
        here = replace(address, quantity="grad")
        return _refusal("Numbers are nudged in the run as it is, before any step:", here, links)
    if node.is_parameter and isinstance(node.op, View):
        other = replace(node.op.behind(place), quantity="grad")
        return _refusal(f"{place.site} is another name for {other.site}, the number to nudge:", other, links)
    try:
        run.model.patch(f"{place}+=0")
    except ReaderError:
        why = "It is worked out from other numbers, so it cannot move on its own. One that can:"
        return _refusal(why, _nearest(run, place), links)
    if not math.isfinite(float(run.values(place))):
        return {"refusal": "The mask makes it −∞; nudging leaves it there.", "instead": ""}
    return None


def _refusal(why: str, other: Address, links: Links) -> Context:
    return {"refusal": why, "instead": links.code(str(other), title=str(other))}


def _nearest(run: Run, place: Address) -> Address:
    """The slope of the nearest number before this one that can be set."""
    site = place.site
    while site not in run.model.hooked:
        reads = [read for read in run.model.graph[site].op.reads if read != "tokens" and read != "log_probs"]
        site = reads[0] if reads else "logits"
    there = Address(site, tuple(_within(run, place, site)), "grad")
    return run.check(there)


def _within(run: Run, place: Address, site: str) -> list[int]:
    """The same place in another site; on axes that it does not know, the target's entry or the last position."""
    known = parse(moved(run, place, site))
    assert isinstance(known, Address)
    axes = run.model.graph[site].axes
    index = known.index or tuple(slice(None) for _ in axes)
    t = index[0] if "pos" in axes and isinstance(index[0], int) else run.n_pos - 1
    ends = {"d_vocab": run.next_token(t), "pos": t, "query": t}
    return [i if isinstance(i, int) else ends.get(axis, 0) for axis, i in zip(axes, index, strict=True)]


# -- the table


def _row(state: State, place: Address, nudge: Nudge) -> tuple[bool, tuple[str, ...]]:
    def loss(by: float, value: float) -> Markup:
        there = state.change(f"{place}+={by!r}").replace(at="loss", trail=(), offset=0, nudge=None, row=None, col=None)
        href, title = escape(there.url()), escape(f"the run with {place} moved by {by:g}")
        return Markup('<a class="num" href="{}" title="{}">{}</a>').format(Markup(href), title, numbers.full(value, 8))

    is_lost = nudge.is_lost and nudge.slope != 0
    cells = (loss(-nudge.h, nudge.lower), loss(nudge.h, nudge.upper), exact(nudge.secant))
    return is_lost, (_size(nudge), *cells, "rounding" if is_lost else _off(nudge))


def _error(nudge: Nudge) -> float:
    return abs(nudge.secant - nudge.slope) / abs(nudge.slope) if nudge.slope else math.nan


def _off(nudge: Nudge) -> str:
    """How far from the slope, as a share of it."""
    error = _error(nudge)
    if not math.isfinite(error):
        return "" if nudge.secant else "0 %"
    return numbers.percent(error) if error < 10 else f"{numbers.count(round(error))} ×"


def _verdict(found: list[Nudge]) -> Context:
    """The h that comes closest, the largest where the chord leaves the curve, the largest that rounding spoils."""
    good = [nudge for nudge in found if not nudge.is_lost]
    best = min(good, key=_error, default=None)
    is_curved = best and good[0] is not best and _error(good[0]) > 10 * _error(best)
    return {
        "is_flat": found[0].slope == 0,
        "is_still": all(nudge.secant == 0 for nudge in found),
        "best": best and {"h": _size(best), "secant": exact(best.secant), "off": _off(best)},
        "agrees": best and _error(best) < 0.1,
        "curved": _size(good[0]) if is_curved else "",
        "lost": next((_size(nudge) for nudge in found if nudge.is_lost), ""),
        "few": FEW,
    }


def _size(nudge: Nudge) -> str:
    return numbers.full(nudge.h, 6)


def _chart(found: list[Nudge]) -> Markup | None:
    """How far the secant is from the slope against h, both on log axes."""
    points = [(nudge.h, _error(nudge), nudge.is_lost) for nudge in found]
    points = [point for point in points if math.isfinite(point[1]) and point[1] > 0]
    if len(points) < 3:
        return None
    label = (
        "How far the secant is from the slope, as a share of it, at each h; hollow where rounding has the better of it."
    )
    return charts.log_log(points, label)
