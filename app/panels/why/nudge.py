"""Finite differences beside a slope: the loss really run again with the number moved, and how far to trust that."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from app.panels import steps
from app.panels.why.links import Links
from app.render import charts, numbers
from app.render.cost import of_passes
from app.render.numbers import exact
from app.render.places import moved
from app.request.page_state import written
from app.request.state import State
from app.server.size import is_large
from model.address.parser import Address, parse
from model.errors import ReaderError
from model.ops.linear import View
from model.runtime.nudge import (
    FEW,
    SIZES,
    Nudge,
    nudges,
)

if TYPE_CHECKING:
    from model import Run

FIRST = 1.0  # the distance that the link asks for; it is one of the usual ones
FEWER = (0.1, 0.01, 1e-3)  # the usual distances of a large model


@dataclass(frozen=True)
class NudgeView:
    """An offer (`url`), the answer (`rows`), or why it cannot be nudged (`refusal`) and what can (`instead`)."""

    url: str = ""
    cost: str = ""
    refusal: str = ""
    instead: Markup | None = None
    rows: tuple[tuple[bool, tuple[str, ...]], ...] = ()  # whether rounding has the better of it, and the cells
    slope: str = ""
    verdict: tuple[str, ...] = ()
    chart: Markup | None = None
    hidden: tuple[tuple[str, str], ...] = ()
    own: str = ""


def nudge_view(run: Run, state: State, address: Address, links: Links) -> NudgeView:
    """What the gradient's panel says of nudging the number at `address`, a slope's."""
    place = steps.before(address)
    if address.step:
        here = replace(address, quantity="grad")
        return NudgeView(
            refusal="Numbers are nudged in the run as it is, before any step:",
            instead=links.to(str(here), Markup("<code>{}</code>").format(str(here)), css="", title=str(here)),
        )
    refused = _refused(run, place, links)
    if refused:
        return refused
    if state.nudge is None:
        sizes = _sizes(run, FIRST)
        cost = f"The loss is run again {2 * len(sizes)} times.{of_passes(run, 2 * len(sizes))}"
        return NudgeView(url=state.replace(nudge=FIRST).url(), cost=cost)
    found = nudges(run, str(place), _sizes(run, state.nudge))
    return NudgeView(
        rows=tuple(_row(state, place, nudge) for nudge in found),
        slope=exact(found[0].slope),
        verdict=tuple(_verdict(found)),
        chart=_chart(found),
        hidden=tuple((name, value) for name, value in state_fields(state) if name != "nudge"),
        own=written(state.nudge),
    )


def state_fields(state: State) -> list[tuple[str, str]]:
    """The whole state as a form's fields."""
    return [*state.page_query, ("at", state.at), *state.view_query]


def _sizes(run: Run, own: float) -> tuple[float, ...]:
    """The usual distances and the reader's own, largest first."""
    usual = FEWER if is_large(run.model.n_parameters) else SIZES
    return tuple(sorted({*usual, own}, reverse=True))


def _refused(run: Run, place: Address, links: Links) -> NudgeView | None:
    """Why this number cannot be moved by itself, and a number that can."""
    node = run.model.graph[place.site]
    if node.is_parameter and isinstance(node.op, View):
        other = replace(node.op.behind(place), quantity="grad")
        return _refusal(f"{place.site} is another name for {other.site}, the number to nudge:", other, links)
    try:
        run.model.patch(f"{place}+=0")
    except ReaderError:
        other = _nearest(run, place)
        return _refusal(
            "It is worked out from other numbers, so it cannot move on its own. One that can:", other, links
        )
    if not math.isfinite(float(run.values(place))):
        return NudgeView(refusal="The mask makes it −∞; nudging leaves it there.")
    return None


def _refusal(why: str, other: Address, links: Links) -> NudgeView:
    name = Markup("<code>{}</code>").format(str(other))
    return NudgeView(refusal=why, instead=links.to(str(other), name, css="", title=str(other)))


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
    return is_lost, (numbers.full(nudge.h, 6), *cells, "rounding" if is_lost else _off(nudge))


def _error(nudge: Nudge) -> float:
    return abs(nudge.secant - nudge.slope) / abs(nudge.slope) if nudge.slope else math.nan


def _off(nudge: Nudge) -> str:
    """How far from the slope, as a share of it."""
    error = _error(nudge)
    if not math.isfinite(error):
        return "" if nudge.secant else "0 %"
    return numbers.percent(error) if error < 10 else f"{numbers.count(round(error))} ×"


def _verdict(found: list[Nudge]) -> list[str]:
    slope = found[0].slope
    if slope == 0:
        still = all(nudge.secant == 0 for nudge in found)
        return ["The loss does not move at all, just as its slope of 0 says." if still else "Its slope is 0."]
    good = [nudge for nudge in found if not nudge.is_lost]
    lost = [nudge for nudge in found if nudge.is_lost]
    says = []
    if good:
        best = min(good, key=_error)
        says.append(
            f"At h = {numbers.full(best.h, 6)} the secant is {exact(best.secant)}, {_off(best)} off the slope: "
            "really running the network again agrees." if _error(best) < 0.1 else
            f"The closest is h = {numbers.full(best.h, 6)}, where the secant is {_off(best)} off the slope."
        )  # fmt: skip
        if _error(good[0]) > 10 * _error(best) and good[0] is not best:
            says.append(
                f"At h = {numbers.full(good[0].h, 6)} the loss has room to bend, and the secant cuts the corner."
            )
    if lost:
        h = numbers.full(max(nudge.h for nudge in lost), 6)
        says.append(
            f"{f'From h = {h} down' if good else 'At every h'} the two losses are fewer than {FEW} of float32’s "
            "smallest steps apart: their difference is rounding, not slope."
        )
    return says


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
