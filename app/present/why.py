"""The why panel: one number, why it is what it is, and what it leads to.

`why_view(run, state)` gathers what `templates/parts/_why.html` draws; arithmetic stays in `model`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup, escape

from app.present import charts, formulas, numbers, why_names
from app.present.charts import Ints
from app.present.tokens import sentence_html
from app.present.why_check import Check, check
from app.present.why_links import FORM, PATH, Links
from app.present.why_numbers import exact, short
from app.present.why_pictures import Picture, TokenCard, picture
from app.present.why_terms import PAGE, Table, listed, term_order, terms_table
from app.urls import State
from model.address import Address, Calc, parse
from model.backward import gradient_formula
from model.errors import ReaderError
from model.explain import SLOPE
from model.expression import expression_rule, rule_of
from model.ops.base import Column, Computed, Ref, refs_in

if TYPE_CHECKING:
    from model import Run
    from model.explain import Explanation
    from model.graph import Node

MOST_READERS = 6
LONG_TRAIL, FEW_STEPS = 5_000, 5  # bytes of all the trail's links; how many steps are shown past that
LONGEST = 48  # characters of an address shown as a link
NOT_YET = "Not in this version yet"
NO_SLOPE = "A token id is an address in the vocabulary: it has no slope"
CHART_FROM = 4  # terms; fewer are seen at a glance in the table
LARGEST_SEARCHED = 4_000_000  # numbers; in larger tensors the largest is not looked for


@dataclass(frozen=True)
class Crumb:
    """One step of the trail; the last one, where the reader is, has no URL."""

    name: str
    value: str
    address: str
    url: str = ""


@dataclass(frozen=True)
class Choice:
    """A link of the terms' navigation; no URL: the one chosen."""

    text: str
    url: str = ""
    is_file: bool = False


@dataclass(frozen=True)
class Tab:
    """One quantity at this place: a URL, or the one shown (no URL), or why it cannot be had."""

    name: str
    url: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Figure:
    """The running total."""

    caption: str
    chart: Markup


@dataclass(frozen=True)
class Step:
    """One step of a formula: MathML and a linked value."""

    formula: Markup
    value: Markup


@dataclass(frozen=True)
class End:
    """A number that no other number of the run makes: where it comes from."""

    title: str
    text: str


@dataclass(frozen=True)
class Linked:
    """An address as a link, and its value where it is one number."""

    link: Markup
    value: str = ""


@dataclass(frozen=True)
class WhyView:
    """Everything the panel shows. Without `value` it shows a site and asks for a number."""

    title: str
    address: str
    whereabouts: tuple[tuple[str, Markup], ...]
    sentence: Markup
    trail: tuple[Crumb, ...]
    formula: Markup
    hidden: tuple[tuple[str, str], ...]
    value: str = ""
    tabs: tuple[Tab, ...] = ()
    picture: Picture | None = None
    figure: Figure | None = None
    steps: tuple[Step, ...] = ()
    table: Table | None = None
    order: tuple[Choice, ...] = ()
    pager: tuple[Choice, ...] = ()
    page: str = ""
    files: tuple[Choice, ...] = ()
    check: Check | None = None
    end: End | None = None
    made_from: tuple[Linked, ...] = ()
    used_by: tuple[Linked, ...] = ()
    more_readers: int = 0
    readers: str = "Used by"
    places: tuple[tuple[str, Linked], ...] = ()
    notes: tuple[str, ...] = ()

    form: str = FORM
    path: str = PATH


def why_view(run: Run, state: State) -> WhyView:
    """The panel for `state.at`: a number, a whole site or part of one, or a `calc(…)`.

    Raises AddressError where the address does not parse or does not exist in this run.
    """
    parsed = parse(state.at)
    links = Links(state)
    if isinstance(parsed, Calc):
        return _number(run, state, links, None, None, parsed)
    address = run.check(parsed)
    node = run.model.graph[address.site]
    if address.is_single:
        return _number(run, state, links, node, address, None)
    return _site(run, state, links, node, address)


# -- one number


def _number(
    run: Run, state: State, links: Links, node: Node | None, address: Address | None, calc: Calc | None
) -> WhyView:
    e = run.explain(state.at, offset=state.offset, limit=PAGE, order=state.order)
    order = term_order(e)
    op = node.op if node and address and not address.quantity else None
    shows_terms = e.combine != "given" and e.n_terms > 0
    readers = e.used_by[:MOST_READERS]
    shown = picture(run, e, op, address.index, links) if op and address else None  # type: ignore[arg-type]
    return WhyView(
        title=_title(node, address) if node and address else "An expression",
        address=e.address,
        whereabouts=tuple(why_names.whereabouts(run, address)) if address else (),
        sentence=sentence_html(run, e.plain),
        trail=_trail(run, state),
        tabs=_tabs(state, node, address),
        formula=formulas.table(formulas.lines(e, calc.tree if calc else None)),
        hidden=_hidden(links),
        value=exact(e.value),
        picture=shown,
        figure=_figure(e, order),
        steps=tuple(_step(step.latex, step.value, step.address, links) for step in e.steps),
        table=terms_table(run, e, op, links, order) if shows_terms else None,
        order=_orders(state, e),
        pager=_pager(state, e),
        page=_page(e),
        files=_files(state, e) if shows_terms else (),
        check=check(e) if e.combine != "given" else None,
        end=_end(node, address) if e.combine == "given" and node and address else None,
        made_from=tuple(_linked(run, at, e.address, links) for at in _made_from(run, address or calc, e)),
        used_by=tuple(_linked(run, reader, e.address, links) for reader in readers),
        more_readers=len(e.used_by) - len(readers),
        readers="Handed on to" if address and address.quantity == "grad" else "Used by",
        notes=e.notes[:1] if isinstance(shown, TokenCard) else e.notes,
    )


def _title(node: Node, address: Address) -> str:
    name = f"{node.title[0].lower()}{node.title[1:]}"
    if address.quantity.startswith("step"):
        return f"After learning: {name}"
    return f"Gradient of {name}" if address.quantity == "grad" else node.title


def _tabs(state: State, node: Node | None, address: Address | None) -> tuple[Tab, ...]:
    """The quantities at one place: its value, the loss's slope along it, its value after a step."""
    if node is None or address is None:
        return ()
    is_slope, is_step = address.quantity == "grad", address.quantity.startswith("step")
    value = replace(state, at=str(replace(address, quantity="")), offset=0).url(PATH)
    slope = replace(state, at=str(replace(address, quantity="grad")), offset=0).url(PATH)
    step = NOT_YET if node.is_parameter else "Only learned weights take a step"
    return (
        Tab("Value", value if address.quantity else ""),
        Tab("Gradient", "" if is_slope else slope) if node.name != "tokens" else Tab("Gradient", "", NO_SLOPE),
        Tab("After a step", "", "" if is_step else step),
    )


def _hidden(links: Links) -> tuple[tuple[str, str], ...]:
    """Fields of the form that carries the run where numbers are buttons."""
    return tuple(links.fields) if links.as_buttons else ()


def _step(latex: str, value: float, address: str, links: Links) -> Step:
    shown = exact(value)
    return Step(formulas.mathml(latex), links.to(address, shown, title=address) if address else escape(shown))


def _figure(e: Explanation, order: Ints) -> Figure | None:
    """The running total of a sum that is too long to see at a glance."""
    if e.combine != "sum" or e.n_terms < CHART_FROM or not np.isfinite(e.total):
        return None
    window = listed(e)
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
    return Figure(caption, charts.running_total(e.products[order], window, label))


# -- the trail


def _trail(run: Run, state: State) -> tuple[Crumb, ...]:
    """The addresses followed, with their values; one that means nothing in this run is left out.

    Each step's link repeats the text: of a long text, only the last few steps are shown.
    """
    steps = [(at, state.back(n).url(PATH)) for n, at in enumerate(state.trail)]
    if sum(len(url) for _, url in steps) > LONG_TRAIL:
        steps = steps[-FEW_STEPS:]
    steps.append((state.at, ""))
    found = []
    for at, url in steps:
        try:
            found.append(Crumb(why_names.word(run, at), _value_of(run, at), at, url))
        except ReaderError:
            continue
    return tuple(found)


def _value_of(run: Run, at: str) -> str:
    """The value of one number in few figures, nothing for more than one."""
    parsed = parse(at)
    if isinstance(parsed, Address) and not run.check(parsed).is_single:
        return ""
    x = run.values(parsed) if isinstance(parsed, Address) else run.values(at)
    return short(float(x)) if np.ndim(x) == 0 else ""


# -- moving through the terms


def _orders(state: State, e: Explanation) -> tuple[Choice, ...]:
    if e.n_terms < 3 or e.combine == "given":
        return ()
    return (
        Choice("by size", "" if e.order == "size" else state.terms(order="size").url(PATH)),
        Choice("by index", "" if e.order == "index" else state.terms(order="index").url(PATH)),
    )


def _pager(state: State, e: Explanation) -> tuple[Choice, ...]:
    found = []
    if e.offset > 0:
        found.append(Choice("‹ previous", state.terms(offset=e.offset - PAGE).url(PATH)))
    if e.offset + PAGE < e.n_terms:
        found.append(Choice("next ›", state.terms(offset=e.offset + PAGE).url(PATH)))
    return tuple(found)


def _page(e: Explanation) -> str:
    if e.n_terms <= PAGE and not e.offset:
        return ""
    if not e.terms:
        return f"no terms from {numbers.count(e.offset + 1)} on: there are {numbers.count(e.n_terms)}"
    return f"{numbers.count(e.offset + 1)}–{numbers.count(e.offset + len(e.terms))} of {numbers.count(e.n_terms)}"


def _files(state: State, e: Explanation) -> tuple[Choice, ...]:
    every = f"all {numbers.count(e.n_terms)} as CSV" if e.n_terms > 1 else "CSV"
    return (
        Choice(every, state.api("explain", format="csv"), is_file=True),
        Choice("JSON", state.api("explain", order=e.order, offset=str(e.offset), limit=str(PAGE)), is_file=True),
    )


# -- where it comes from, where it goes


def _end(node: Node, address: Address) -> End:
    if address.quantity == "grad":
        return End(
            "The slope of the loss along itself: the chain ends here", "Every other slope is counted from this one."
        )
    if node.is_parameter:
        text = (
            "Training set this number once. Every run of this model reads the same value; nothing in this run made it."
        )
        return End("From training: the chain ends here", text)
    return End("From the text: the chain ends here", "The tokenizer turned what was typed into this id.")


def _made_from(run: Run, parsed: Address | Calc | None, e: Explanation) -> list[str]:
    """What the terms read, as whole rows where a term runs along one."""
    try:
        rule = rule_of(run, parsed) if isinstance(parsed, Address) else expression_rule(run, parsed)  # type: ignore[arg-type]
    except ReaderError:  # a quantity whose rule only `explain` knows: what the listed terms read
        found = [factor.address for term in e.terms for factor in term.factors if factor.address]
    else:
        found = [at for group in rule.groups for column in group.factors for at in _sources(run, column)]
    return list(dict.fromkeys(found))


def _sources(run: Run, column: Column) -> list[str]:
    if isinstance(column, Computed):
        return [column.address(0)] if np.ndim(column.value) == 0 else []
    return [_row_of(run, ref) for ref in refs_in(column)]


def _row_of(run: Run, ref: Ref) -> str:
    places = zip(ref.index, run.shape(ref.site), strict=True)
    return str(Address(ref.site, tuple(_whole(i, n) for i, n in places), ref.quantity))


def _whole(i: int | Ints, size: int) -> int | slice:
    """The places of a column on one axis as an index: `:` where it runs over all of it."""
    if np.ndim(i) == 0:
        return int(i)
    first, last = int(np.min(i)), int(np.max(i))
    return slice(None) if (first, last) == (0, size - 1) else slice(first, last + 1)


def _linked(run: Run, at: str, here: str, links: Links) -> Linked:
    shown = why_names.short(run, at, here) if not at.startswith("calc(") else at
    name = Markup("<code>{}</code>").format(shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 2]}…)")
    return Linked(links.to(at, name, css="", title=at), _value_of(run, at))


# -- a whole site


def _site(run: Run, state: State, links: Links, node: Node, address: Address) -> WhyView:
    """A site or part of one: what its numbers are, the first one's formula, and numbers to start from."""
    first = tuple(i if isinstance(i, int) else (i.start or 0) for i in address.index)
    graph = run.model.graph
    reads = [Linked(links.to(site, Markup("<code>{}</code>").format(site), css="")) for site in node.op.reads]
    readers = list(dict.fromkeys(reader.name for reader in graph.consumers(node.name)))
    consumers = [Linked(links.to(site, Markup("<code>{}</code>").format(site), css="")) for site in readers]
    is_slope = address.quantity == "grad"
    written = gradient_formula(run, node, first) if is_slope else node.op.formula(run, first)
    left, *rights = formulas.sides(written)
    return WhyView(
        title=_title(node, address),
        address=str(address),
        whereabouts=tuple(why_names.whereabouts(run, address)),
        sentence=sentence_html(run, SLOPE if is_slope else node.op.plain(run, first)),
        trail=_trail(run, state),
        formula=formulas.table(formulas.symbolic(left, rights) if rights else [(left, "")]),
        hidden=_hidden(links),
        made_from=tuple(reads),
        used_by=tuple(consumers[:MOST_READERS]),
        more_readers=max(len(consumers) - MOST_READERS, 0),
        places=tuple(_places(run, address, first, links)),
    )


def _places(run: Run, address: Address, first: tuple[int, ...], links: Links) -> list[tuple[str, Linked]]:
    """Numbers to begin with: the first, and the largest and smallest where they are quick to find."""
    chosen = [("first", first)]
    size = run.tensor(address.site)[address.index].numel()
    if 1 < size <= LARGEST_SEARCHED:
        values = run.values(address)
        chosen += [(name, _absolute(address, int(find(values)), values.shape)) for name, find in EXTREMES]
    found = [(name, str(replace(address, index=place))) for name, place in chosen]
    return [(name, _linked(run, at, "", links)) for name, at in found]


def _absolute(address: Address, flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The place in the whole site of the `flat`-th number of a slice of it."""
    inside = iter(np.unravel_index(flat, shape))
    return tuple(i if isinstance(i, int) else int(next(inside)) + (i.start or 0) for i in address.index)


EXTREMES = (("largest", np.nanargmax), ("smallest", np.nanargmin))
