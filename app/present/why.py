"""The why panel: one number, why it is what it is, and what it leads to.

`why_view(run, state)` gathers what `templates/parts/_why.html` draws; arithmetic stays in `model`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
from markupsafe import Markup, escape

from app.present import charts, formulas, numbers, steps, why_names, why_slopes, why_steps
from app.present.charts import Ints
from app.present.tokens import sentence_html
from app.present.why_check import Check, check
from app.present.why_links import FORM, PATH, Links
from app.present.why_nudge import NudgeView, nudge_view
from app.present.why_numbers import exact, short
from app.present.why_pictures import Picture, TokenCard, picture
from app.present.why_steps import After, Waiting
from app.present.why_terms import PAGE, Table, listed, term_order, terms_table
from app.urls import SAFE, State
from model.address import Address, Calc, parse
from model.backward import gradient_formula
from model.errors import ReaderError
from model.explain import SLOPE
from model.expression import expression_rule, rule_of
from model.ops.base import Column, Computed, Op, Ref, refs_in
from model.ops.update import step_formula
from model.patch import parse_patch

if TYPE_CHECKING:
    from model import Run
    from model.explain import Explanation
    from model.graph import Node

MOST_READERS = 6
LONG_TRAIL, FEW_STEPS = 5_000, 5  # bytes of all the trail's links; how many steps are shown past that
LONGEST = 48  # characters of an address shown as a link
NO_QUANTITY = "A token id is an address in the vocabulary, no quantity: it has no slope and takes no step"
CHANGED = "In a run with numbers set by you there are no slopes and no steps: take the changes away to see them"
WHATIF = "/whatif"
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
    unit: str = ""
    after: After | None = None
    waiting: Waiting | None = None
    nudge: NudgeView | None = None
    whatif: str = ""

    form: str = FORM
    path: str = PATH


def why_view(run: Run, state: State) -> WhyView:
    """The panel for `state.at`: a number, a whole site or part of one, or a `calc(…)`.

    Raises AddressError where the address does not parse or does not exist in this run.
    """
    parsed, links = parse(state.at), Links(state)
    if isinstance(parsed, Calc):
        if steps.must_wait(run, state.at):
            return _waiting(run, state, links, None, None)
        return _number(Place(run, links), run, state, None, None, parsed)
    address = run.check(parsed)
    node = run.model.graph[address.site]
    if steps.must_wait(run, state.at):
        return _waiting(run, state, links, node, address)
    if address.is_single:
        return _number(_in_its_run(run, state, node, address), run, state, node, address, None)
    return _site(run, state, links, node, address)


# -- one number


@dataclass(frozen=True)
class Place:
    """The run that a number is explained in, and links onward from it; `own` is the number's address there."""

    run: Run
    links: Links
    own: Address | None = None


def _in_its_run(run: Run, state: State, node: Node, address: Address) -> Place:
    """Numbers after k steps are numbers of a run of their own, weights and their averages belong to the start's."""
    k = address.step
    if k is None or (node.is_parameter and address.kind != "grad"):
        return Place(run, Links(state), address)
    run.learning.take(k, with_slopes=address.kind == "grad")
    own = replace(address, quantity="grad" if address.kind == "grad" else "")
    return Place(run.learning.runs[k], Links(state, k), own)


def _number(
    place: Place, run: Run, state: State, node: Node | None, address: Address | None, calc: Calc | None
) -> WhyView:
    there, links, own = place.run, place.links, place.own
    kind = own.kind if own else ""
    is_update = kind in ("step", "m", "v")
    e = there.explain(str(own or calc), offset=state.offset, limit=PAGE, order="index" if is_update else state.order)
    order = term_order(e)
    op = node.op if node and own and not own.quantity else None
    shows_terms = e.combine != "given" and e.n_terms > 0
    readers = e.used_by[:MOST_READERS]
    sentence, notes = _sentence(run, place, node, address, e)
    if node and own and is_update:
        e = replace(e, formula=why_steps.formula(e, own, run.rate))
    elif node and own and kind == "grad":
        e = replace(e, formula=why_slopes.formula(there, e, node, own.index))  # type: ignore[arg-type]
    shown = _picture(there, e, op, node, own, links)
    takes_steps = address is not None and address.kind in ("step", "m", "v")
    return WhyView(
        title=_title(node, address) if node and address else "An expression",
        address=state.at if address is None else str(address),
        whereabouts=tuple(why_names.whereabouts(run, address)) if address else (),
        sentence=sentence_html(there, sentence),
        trail=_trail(run, state),
        tabs=_tabs(state, node, address),
        formula=formulas.table(formulas.lines(e, calc.tree if calc else None)),
        hidden=_hidden(links),
        value=_shown(run, address, e),
        picture=shown,
        figure=None if is_update else _figure(e, order),
        steps=tuple(_step(step.latex, step.value, step.address, links) for step in e.steps),
        table=terms_table(there, e, op, links, order) if shows_terms else None,
        order=() if is_update else _orders(state, e),
        pager=_pager(state, e),
        page=_page(e),
        files=_files(state, e) if shows_terms else (),
        check=check(e) if e.combine != "given" else None,
        end=_end(node, own) if e.combine == "given" and node and own else None,
        made_from=tuple(_linked(there, at, e.address, links) for at in _made_from(there, own or calc, e)),
        used_by=tuple(_linked(there, reader, e.address, links) for reader in readers),
        more_readers=len(e.used_by) - len(readers),
        readers="Handed on to" if kind == "grad" else "Used by",
        notes=notes[:1] if isinstance(shown, TokenCard) else notes,
        unit="change of the loss for each unit of this number" if kind == "grad" else "",
        after=why_steps.after(run, state, address, Links(state), e) if address and takes_steps else None,
        nudge=nudge_view(run, state, address, Links(state)) if address and kind == "grad" else None,
        whatif=_whatif(run, state, address) if address and not address.quantity else "",
    )


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
    return e.plain, e.notes


def _picture(
    run: Run, e: Explanation, op: Op | None, node: Node | None, own: Address | None, links: Links
) -> Picture | None:
    if own is None or node is None:
        return None
    if own.kind == "grad":
        return why_slopes.by_reader(run, e, node, own.index, links)  # type: ignore[arg-type]
    return picture(run, e, op, own.index, links) if op else None  # type: ignore[arg-type]


def _title(node: Node, address: Address) -> str:
    if not address.quantity:
        return node.title
    name = f"{node.title[0].lower()}{node.title[1:]}"
    after = f", after {steps.in_words(address.step)}" if address.step is not None else ""
    what = {"grad": f"Gradient of {name}", "m": f"AdamW’s average slope of {name}",
            "v": f"AdamW’s average squared slope of {name}"}.get(address.kind, node.title)  # fmt: skip
    return what + after


def _tabs(state: State, node: Node | None, address: Address | None) -> tuple[Tab, ...]:
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
    reason = NO_QUANTITY if node.name == "tokens" else CHANGED if state.changes else ""
    return tuple(
        Tab(name)
        if name == here
        else Tab(name, "", reason)
        if reason and name != "Value"
        else Tab(name, state.turn(str(place)).url(PATH))
        for name, place in places.items()
    )


def _whatif(run: Run, state: State, address: Address) -> str:
    """Where this number can be set: the page of what-ifs, with its address and value in the field to be edited."""
    place, value = str(address), float(run.values(address))
    try:
        parse_patch(run.model, f"{place}={value!r}")
    except ReaderError:
        return ""
    others = [change for change in state.changes if not change.startswith((f"{place}=", f"{place}+="))]
    draft = quote(f"{place}={_all_digits(value)}", safe=SAFE)
    return f"{replace(state, trail=(), offset=0).change(*others).url(WHATIF)}&draft={draft}"


def _all_digits(x: float) -> str:
    """As many digits as float32 needs to have the same number again."""
    return next((text for digits in (6, 7, 8, 9) if float(np.float32(text := f"{x:.{digits}g}")) == x), repr(x))


def _waiting(run: Run, state: State, links: Links, node: Node | None, address: Address | None) -> WhyView:
    """Steps of a large model that are not taken yet: nothing is computed, the page says what it would cost."""
    title = _title(node, address) if node and address else "An expression"
    return WhyView(
        title=title,
        address=state.at,
        whereabouts=tuple(why_names.whereabouts(run, address)) if address else (),
        sentence=Markup("These steps are not taken yet."),
        trail=_trail(run, state),
        tabs=_tabs(state, node, address) if address and address.is_single else (),
        formula=Markup(""),
        hidden=_hidden(links),
        waiting=why_steps.waiting(run, state, address),
    )


def _hidden(links: Links) -> tuple[tuple[str, str], ...]:
    """Fields of the form that carries the run where numbers are buttons."""
    return tuple(links.fields) if links.as_buttons else ()


def _step(latex: str, value: float, address: str, links: Links) -> Step:
    shown = exact(value)
    return Step(formulas.mathml(latex), links.to(address, shown, title=address) if address else escape(shown))


def _figure(e: Explanation, order: Ints) -> Figure | None:
    """The running total of a sum that is too long to see at a glance."""
    if e.combine != "sum" or e.n_terms < CHART_FROM or not np.isfinite(e.total) or not e.products.any():
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
    """The value of one number in few figures, nothing for more than one, or where it would take steps first."""
    parsed = parse(at)
    if steps.must_wait(run, at):
        return ""
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
    on_top = int(e.combine == "quotient")  # the numerator comes first and is not counted
    first, last, n = max(e.offset + 1 - on_top, 1), e.offset + len(e.terms) - on_top, e.n_terms - on_top
    if not e.terms:
        return f"no terms from {numbers.count(first)} on: there are {numbers.count(n)}"
    return f"{numbers.count(first)}–{numbers.count(last)} of {numbers.count(n)}"


def _files(state: State, e: Explanation) -> tuple[Choice, ...]:
    every = f"all {numbers.count(e.n_terms)} as CSV" if e.n_terms > 1 else "CSV"
    if e.combine == "quotient" and e.n_terms > 2:
        every = f"all {numbers.count(e.n_terms - 1)} and the one on top as CSV"
    return (
        Choice(every, state.api("explain", format="csv"), is_file=True),
        Choice("JSON", state.api("explain", order=e.order, offset=str(e.offset), limit=str(PAGE)), is_file=True),
    )


# -- where it comes from, where it goes


def _end(node: Node, address: Address) -> End:
    if address.kind == "grad":
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
    if isinstance(parsed, Address) and parsed.kind == "step" and run.rate.optimizer == "adamw" and parsed.step:
        k = parsed.step
        before = steps.stepped(parsed, k - 1) if k > 1 else steps.before(parsed)
        return [str(before), *(str(replace(parsed, quantity=f"{moment}({k})")) for moment in "mv")]
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
    is_slope = address.kind == "grad"
    written = _written(run, node, address, first)
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
    return [(name, _linked(run, at, "", links)) for name, at in found]


def _absolute(address: Address, flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The place in the whole site of the `flat`-th number of a slice of it."""
    inside = iter(np.unravel_index(flat, shape))
    return tuple(i if isinstance(i, int) else int(next(inside)) + (i.start or 0) for i in address.index)


EXTREMES = (("largest", np.nanargmax), ("smallest", np.nanargmin))
