"""Explanations: the value at one address recomputed in float64 from its terms, beside what PyTorch captured."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from model.address.parser import Address, Calc, parse
from model.errors import AddressError, ReaderError
from model.explain.expression import expression_rule, number
from model.ops.base import Combine, Constant, Floats, Function, Group, Rule, Step
from model.ops.update import moment_rule, step_formula, step_rule
from model.runtime.backward import gradient_formula, gradient_rule, passed_back_to
from model.runtime.learn import after_steps

if TYPE_CHECKING:
    from model.arch.base import Node
    from model.runtime.run import Run

Order = Literal["index", "size"]

TOLERANCE = 1e-5  # of the sum of the terms' sizes for a sum, of the value otherwise
FLOOR = 1e-12


@dataclass(frozen=True)
class Factor:
    """One factor of a term: a number with an address, or a named constant (its name is LaTeX)."""

    value: float
    address: str | None = None
    constant: str | None = None


@dataclass(frozen=True)
class Term:
    """One term. `index` is its place in index order; `place` names that place on the axes summed over."""

    index: int
    product: float
    factors: tuple[Factor, ...]
    label: str = ""
    place: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Subtotal:
    """The part of a sum that one place on its first axis contributes, e.g. one attention head."""

    axis: str
    place: int
    value: float
    address: str


@dataclass(frozen=True)
class Explanation:
    """How one number is made.

    value       what PyTorch captured (float32); of a `calc(…)`, its value in float64
    total       recomputed in float64 from all terms: see `combine` in `model.ops.base.Rule`
    difference  total − value; `allowed` is the largest that counts as agreeing, `fault` says it is exceeded
    terms       a window of the terms, in `order`, from `offset`; `rest` is the sum of the products not in it
    products    every term's product in index order
    formula     LaTeX; `plain` a sentence in which {t3} is the token at position 3 and {v17} vocabulary entry 17
    """

    address: str
    site: str
    op: str
    value: float
    formula: str
    plain: str
    combine: Combine
    function: Function | None
    terms: tuple[Term, ...]
    n_terms: int
    offset: int
    limit: int
    order: Order
    rest: float
    total: float
    difference: float
    allowed: float
    products: Floats = field(repr=False, compare=False)
    subtotals: tuple[Subtotal, ...] = ()
    steps: tuple[Step, ...] = ()
    used_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fault(self) -> bool:
        """True where the recomputed total does not meet the captured value; NaN never does."""
        return not abs(self.difference) <= self.allowed

    def __str__(self) -> str:
        from model.explain.text_form import text_form

        return text_form(self)


SLOPE = (
    "How fast the loss moves as this number is nudged, all else computed on from there: "
    "for everything that reads it, the slope there times how much the reader moves with it."
)


SET = "set by the reader"
CHOSEN = "You chose this number for this run; what would have made it plays no part."
MOVED = "You moved this number away from what the run made of it."
STEP = "The weight after learning: it moved against its own slope, a small step each time."
MOMENT = "AdamW's running average over the steps' slopes, the latest counting most."


def explain(run: Run, at: str, *, offset: int = 0, limit: int = 20, order: Order = "index") -> Explanation:
    """Explain the number at `at`. `offset` and `limit` choose the window of terms, `order` their order.

    Raises AddressError where `at` does not parse, is out of range, or names more than one number.
    """
    if offset < 0 or limit < 0:
        raise ReaderError(f"offset and limit are {offset} and {limit}, but may not be negative.")
    parsed = parse(at)
    if isinstance(parsed, Calc):
        value = number(run, parsed)
        rule = expression_rule(run, parsed)
        about = {"site": "calc", "op": "arithmetic", "formula": "", "plain": "Arithmetic on numbers of this run."}
        return _build(run, str(parsed), value, rule, about, (), offset, limit, order)
    address = run.check(parsed)
    if not address.is_single:
        raise AddressError(f"{parsed} is more than one number.", _first_of(run, address))
    place: tuple[int, ...] = address.index  # type: ignore[assignment]
    node = run.model.graph[address.site]
    if address.step is not None and not (node.is_parameter and address.kind != "grad"):
        return _in_step(run, address, offset, limit, order)
    if address.step is not None:
        return _of_weight(run, address, node, offset, limit, order)
    if address.quantity == "grad":
        rule = gradient_rule(run, node, place)
        about = {"site": node.name, "op": "gradient", "formula": gradient_formula(run, node, place), "plain": SLOPE}
        readers = passed_back_to(run, node, place)
    else:
        rule, chosen = changed(run, node.name, place, node.op.forward(run, place))
        about = {"site": node.name, "op": node.op.name}
        about |= {"formula": node.op.formula(run, place), "plain": node.op.plain(run, place)}
        if chosen:
            about |= {"op": SET, "formula": "", "plain": chosen}
        readers = used_by(run, address)
    value = float(run.values(address))
    return _build(run, str(address), value, rule, about, readers, offset, limit, order)


def _in_step(run: Run, address: Address, offset: int, limit: int, order: Order) -> Explanation:
    """A number of the run after k steps: that run's explanation, its addresses as this run names them."""
    k = address.step or 0
    run.learning.take(k, with_slopes=address.kind == "grad")
    there = replace(address, quantity="grad" if address.kind == "grad" else "")
    e = explain(run.learning.runs[k], str(there), offset=offset, limit=limit, order=order)

    def named(at: str | None) -> str | None:
        return after_steps(at, k) if at and k else at

    factors = [tuple(replace(f, address=named(f.address)) for f in term.factors) for term in e.terms]
    return replace(
        e,
        address=str(address),
        terms=tuple(replace(term, factors=f) for term, f in zip(e.terms, factors, strict=True)),
        subtotals=tuple(replace(s, address=after_steps(s.address, k) if k else s.address) for s in e.subtotals),
        steps=tuple(replace(s, address=named(s.address) or "") for s in e.steps),
        used_by=tuple(named(at) or "" for at in e.used_by),
        notes=(*e.notes, f"In the run after {k} learning step{'s' * (k != 1)}."),
    )


def _of_weight(run: Run, address: Address, node: Node, offset: int, limit: int, order: Order) -> Explanation:
    """A weight after k steps, or AdamW's running averages for it."""
    k, place, rate = address.step or 0, address.index, run.rate
    symbol = node.op.formula(run, place).split(" = ")[0]  # type: ignore[arg-type]
    if address.kind in ("m", "v"):
        rule = moment_rule(rate, address.kind, node.name, place, k)  # type: ignore[arg-type]
        about = {"op": "running average", "formula": "", "plain": MOMENT}
        readers: tuple[str, ...] = (str(replace(address, quantity=f"step({k})")),)
    else:
        moments = (0.0, 0.0)
        if rate.optimizer == "adamw" and k:
            moments = tuple(float(run.part(node.name, place, f"{x}({k})")) for x in "mv")  # type: ignore[assignment]
        rule = step_rule(rate, node.name, place, k, moments)  # type: ignore[arg-type]
        about = {"op": "parameter update", "formula": step_formula(rate, symbol, k), "plain": STEP}
        readers = tuple(after_steps(at, k) for at in used_by(run, replace(address, quantity="")))
    value = float(run.values(address))
    return _build(run, str(address), value, rule, about | {"site": node.name}, readers, offset, limit, order)


def changed(run: Run, site: str, place: tuple[int, ...], rule: Rule) -> tuple[Rule, str]:
    """The rule of a number that the reader may have set or moved: see `model.address.patch`.

    With it, in words, what stands in place of its own rule; "" where that still makes the number.
    """
    chosen = ""
    moves: tuple[str, ...] = ()
    for patch in run.patches:
        if patch.at.site == site and patch.covers(place):
            moved = f"Moved by {patch.value:g} for this run." if patch.add else f"Set to {patch.value:g} for this run."
            if patch.add and rule.combine == "sum":
                rule = replace(rule, groups=(*rule.groups, Group((Constant("h", patch.value),), label="your change")))
                rule = replace(rule, notes=(*rule.notes, moved))
            else:
                moves = (*moves, moved) if patch.add else (moved,)  # what is set does not depend on what was before
                rule, chosen = Rule("given", notes=moves), chosen or MOVED if patch.add else CHOSEN
    return rule, chosen


def used_by(run: Run, address: Address) -> tuple[str, ...]:
    """Addresses (with slices) of the sites that read the number at `address` next."""
    found: dict[str, None] = {}
    for node in run.model.graph.consumers(address.site):
        if node.is_parameter:  # W_U is another name of W_E, not a use of it
            continue
        for index in node.op.readers(run, address.site, address.index):  # type: ignore[arg-type]
            found[str(Address(node.name, index))] = None
    return tuple(found)


def products_of(run: Run, rule: Rule) -> Floats:
    """Every term's product in index order, float64."""
    parts = [_products(run, group) for group in rule.groups]
    return np.concatenate(parts) if parts else np.empty(0)


def _products(run: Run, group: Group) -> Floats:
    values = [run.numbers(column) for column in group.factors]
    if group.product is not None:
        product = group.product(values)
    else:
        product = values[0]
        for value in values[1:]:
            product = product * value
    return np.broadcast_to(product, (group.n,))


def total_of(rule: Rule, products: Floats, given: float) -> float:
    """What the terms make together by the rule's way of combining them."""
    with np.errstate(all="ignore"):
        if rule.combine == "sum":
            return float(products.sum())
        if rule.combine == "quotient":
            return float(np.divide(products[0], products[1:].sum()))
        if rule.combine == "given" or rule.function is None:
            return given
        try:
            return rule.function.apply(products)
        except (ValueError, OverflowError):
            return float("nan")


@np.errstate(all="ignore")  # what is not finite is said in the notes
def _build(
    run: Run,
    address: str,
    value: float,
    rule: Rule,
    about: dict[str, str],
    readers: tuple[str, ...],
    offset: int,
    limit: int,
    order: Order,
) -> Explanation:
    products = products_of(run, rule)
    total = total_of(rule, products, value)
    shown = _order(products, rule, order)[offset : offset + limit]
    rest = np.ones(len(products), dtype=bool)
    rest[shown] = False
    notes = rule.notes
    if not np.isfinite(value) and not about["site"].endswith(".scores"):
        first = run.first_fault()
        where = f"; the first site of the run that holds one is {first}" if first else ""
        notes += (f"This is not a finite number{where}.",)
    return Explanation(
        address=address,
        value=value,
        combine=rule.combine,
        function=rule.function,
        terms=_terms(run, rule, products, shown.tolist()),
        n_terms=len(products),
        offset=offset,
        limit=limit,
        order=order,
        rest=float(products[rest].sum()),
        total=total,
        difference=0.0 if total == value else total - value,
        allowed=_allowed(rule, products, value),
        products=products,
        subtotals=tuple(_subtotals(rule, products)),
        steps=rule.steps,
        used_by=readers,
        notes=notes,
        **about,
    )


def _allowed(rule: Rule, products: Floats, value: float) -> float:
    size = float(np.abs(products).sum()) if rule.combine == "sum" else abs(value)
    return max(TOLERANCE * size, FLOOR)


def _order(products: Floats, rule: Rule, order: Order) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Term indices in the order asked for; a quotient's numerator stays first."""
    if order == "index":
        return np.arange(len(products))
    size = np.abs(products)
    if rule.combine == "quotient":
        size[0] = np.inf
    return np.argsort(-size, kind="stable")


def _terms(run: Run, rule: Rule, products: Floats, shown: list[int]) -> tuple[Term, ...]:
    """The terms at these indices, each group's columns looked up once."""
    starts = np.cumsum([0, *(group.n for group in rule.groups)])
    columns = [[np.broadcast_to(run.numbers(column), (group.n,)) for column in group.factors] for group in rule.groups]
    terms = []
    for index in shown:
        g = int(np.searchsorted(starts, index, side="right")) - 1
        group, n = rule.groups[g], index - int(starts[g])
        factors = tuple(
            Factor(float(values[n]), constant=column.name)
            if isinstance(column, Constant)
            else Factor(float(values[n]), address=column.address(n))
            for column, values in zip(group.factors, columns[g], strict=True)
        )
        place = tuple((axis, int(p[n])) for axis, p in zip(group.axes, group.places, strict=True))
        terms.append(Term(index, float(products[index]), factors, group.label, place))
    return tuple(terms)


def _subtotals(rule: Rule, products: Floats) -> list[Subtotal]:
    found, start = [], 0
    for group in rule.groups:
        if group.subtotal is not None:
            sums = np.bincount(group.places[0], weights=products[start : start + group.n])
            found += [Subtotal(group.axes[0], n, float(v), group.subtotal(n)) for n, v in enumerate(sums)]
        start += group.n
    return found


def _first_of(run: Run, address: Address) -> str:
    first = [i if isinstance(i, int) else (i.start or 0) for i in address.index]
    return f"Its first number is {Address(address.site, tuple(first))}."
