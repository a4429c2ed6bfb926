"""The why panel of one number: why it is what it is, and what it leads to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from app.panels import steps
from app.panels.save import of_number
from app.panels.why import names as why_names
from app.panels.why import slopes as why_slopes
from app.panels.why import steps as why_steps
from app.panels.why.check import check
from app.panels.why.ends import end, linked, made_from
from app.panels.why.links import Links
from app.panels.why.navigation import orders, page, pager, tabs, title, trail
from app.panels.why.nudge import nudge_view
from app.panels.why.panel import MOST_READERS, WhyView, hidden
from app.panels.why.pictures import Picture, chart, picture
from app.panels.why.terms import term_order, terms_table
from app.render import charts, formulas, numbers
from app.render.charts import Ints, Listed
from app.render.numbers import exact
from app.render.tokens import sentence_html
from app.request.paths import SAFE, WHATIF
from app.request.state import State
from model.address.parser import Address, Calc
from model.errors import ReaderError
from model.ops.op import Op

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node
    from model.explain.explanation import Explanation

CHART_FROM = 4  # terms; fewer are seen at a glance in the table


@dataclass(frozen=True)
class Place:
    """The run that a number is explained in, and links onward from it; `own` is the number's address there."""

    run: Run
    links: Links
    own: Address | None = None


def in_its_run(run: Run, state: State, node: Node, address: Address) -> Place:
    """Numbers after k steps are numbers of a run of their own, weights and their averages belong to the start's."""
    k = address.step
    if k is None or (node.is_parameter and address.kind != "grad"):
        return Place(run, Links(state), address)
    run.learning.take(k, with_slopes=address.kind == "grad")
    own = replace(address, quantity="grad" if address.kind == "grad" else "")
    return Place(run.learning.runs[k], Links(state, k), own)


def number_view(
    place: Place, run: Run, state: State, node: Node | None, address: Address | None, calc: Calc | None, limit: int
) -> WhyView:
    there, links, own = place.run, place.links, place.own
    kind = own.kind if own else ""
    at: tuple[int, ...] = own.index if own else ()  # type: ignore[assignment]
    is_update = kind in ("step", "m", "v")
    e = there.explain(str(own or calc), offset=state.offset, limit=limit, order="index" if is_update else state.order)
    order = term_order(e)
    op = node.op if node and own and not own.quantity and e.kind != "set" else None
    shows_terms = e.combine != "given" and e.n_terms > 0
    readers = e.used_by[:MOST_READERS]
    sentence, notes = _sentence(run, place, node, address, e)
    e = _with_formula(run, place, node, e)
    shown = _picture(there, e, op, node, own, links)
    takes_steps = address is not None and address.kind in ("step", "m", "v")
    return WhyView(
        title=title(node, address) if node and address else "An expression",
        address=state.at if address is None else str(address),
        whereabouts=why_names.whereabouts(run, address) if address else (),
        sentence=sentence_html(there, sentence),
        trail=trail(run, state),
        tabs=tabs(run, state, node, address),
        formula=formulas.table(formulas.lines(e, calc.tree if calc else None)),
        hidden=hidden(links),
        value=_shown(run, address, e),
        picture=shown,
        figure=None if is_update else _figure(e, order),
        steps=tuple(
            (formulas.mathml(step.latex), links.to(step.address, exact(step.value), title=step.address))
            for step in e.steps
        ),
        table=terms_table(there, e, op, at, links, order) if shows_terms else None,
        order=() if is_update else orders(state, e),
        pager=pager(state, e),
        page=page(e),
        check=check(e) if e.combine != "given" else None,
        end=end(node, own, e) if e.combine == "given" and node and own else None,
        made_from=tuple(linked(there, at, e.address, links) for at in made_from(there, own or calc, e)),
        used_by=tuple(linked(there, reader, e.address, links) for reader in readers),
        more_readers=len(e.used_by) - len(readers),
        readers="Handed on to" if kind == "grad" else "Used by",
        notes=notes,
        unit="change of the loss for each unit of this number" if kind == "grad" else "",
        after=why_steps.after(run, state, address, Links(state), e) if address and takes_steps else None,
        nudge=nudge_view(run, state, address, Links(state)) if address and kind == "grad" else None,
        whatif=_whatif(run, state, address) if address and not address.quantity else "",
        downloads=of_number(state.replace(at=str(address or calc)), e),
    )


def _with_formula(run: Run, place: Place, node: Node | None, e: Explanation) -> Explanation:
    """The explanation of a slope, or of a weight after steps, with a formula that says whose."""
    own = place.own
    if node is None or own is None:
        return e
    if own.kind in ("step", "m", "v"):
        return replace(e, formula=why_steps.formula(e, own, run.rate))
    if own.kind == "grad":
        return replace(e, formula=why_slopes.formula(place.run, e, node, own.index))  # type: ignore[arg-type]
    return e


def _shown(run: Run, address: Address | None, e: Explanation) -> str:
    """The value; after steps, with figures enough to tell it from what it was before."""
    if address is None or address.kind != "step":
        return exact(e.value)
    return why_steps.apart(float(run.values(str(steps.before(address)))), e.value)[1]


def _sentence(
    run: Run, place: Place, node: Node | None, address: Address | None, e: Explanation
) -> tuple[str, tuple[str, ...]]:
    """What the number is, in a sentence, and the notes that it leaves to say."""
    own = place.own
    if node is None or address is None or own is None:
        return e.plain, e.notes
    if own.kind == "grad":
        reason = e.notes[0] if e.value == 0 and e.notes else why_slopes.why_zero(place.run, e)
        notes = e.notes[1:] if e.value == 0 else e.notes
        says = why_slopes.sentence(place.run, e, node, own.index)  # type: ignore[arg-type]
        return f"{says} {reason}".rstrip(), () if e.combine == "given" else notes
    if address.quantity:
        return why_steps.sentence(run, node, address, e), e.notes
    return e.plain, () if e.kind == "set" else e.notes  # the end of the chain says how


def _picture(
    run: Run, e: Explanation, op: Op | None, node: Node | None, own: Address | None, links: Links
) -> Picture | None:
    if own is None or node is None:
        return None
    if own.kind == "grad":
        return why_slopes.by_reader(run, e, node, own.index, links)  # type: ignore[arg-type]
    return picture(run, e, op, own.index, links) if op else None  # type: ignore[arg-type]


def _whatif(run: Run, state: State, address: Address) -> str:
    """Where this number can be set: the page of what-ifs, with its address and value in the field to be edited."""
    place, value = str(address), float(run.values(address))
    try:
        run.model.patch(f"{place}={value!r}")
    except ReaderError:
        return ""
    others = [change for change in state.changes if not change.startswith((f"{place}=", f"{place}+="))]
    draft = quote(f"{place}={_all_digits(value)}", safe=SAFE)
    return f"{state.replace(trail=(), offset=0).change(*others).url(WHATIF)}&draft={draft}"


def _all_digits(x: float) -> str:
    """As many digits as float32 needs to have the same number again."""
    return next((text for digits in (6, 7, 8, 9) if float(np.float32(text := f"{x:.{digits}g}")) == x), repr(x))


def _figure(e: Explanation, order: Ints) -> Picture | None:
    """The running total of a sum that is too long to see at a glance."""
    if e.combine != "sum" or e.n_terms < CHART_FROM or not np.isfinite(e.total) or not e.products.any():
        return None
    window = Listed(e.offset, e.offset + len(e.terms))
    how = "largest first" if e.order == "size" else "in order"
    caption = f"The {numbers.count(e.n_terms)} terms, {how}, and their running total"
    totals = np.cumsum(e.products[order])
    low, high = exact(float(min(totals.min(), 0))), exact(float(max(totals.max(), 0)))
    label = (
        f"Running total of {numbers.count(e.n_terms)} terms, {how}: it stays between {low} and {high} "
        f"and ends at {exact(e.total)}."
    )
    if e.n_terms > charts.BARS:
        caption += f". A bar shows the extremes of about {max(round(e.n_terms / charts.BARS), 2)} neighbours"
    return chart(caption, charts.running_total(e.products[order], window, label))
