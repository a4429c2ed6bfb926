"""Explaining the number at one address: its value recomputed in float64 from its terms, beside what was captured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from model.address.parser import Address, Calc, parse
from model.arch.base import Node
from model.errors import AddressError
from model.explain.explainable import Explainable, after_steps
from model.explain.explanation import Explanation
from model.explain.expression import expression_rule, number
from model.explain.gradients import gradient_formula, gradient_rule, passed_back_to
from model.explain.terms import Window, allowed, listed, products_of, subtotals_of, terms_of, total_of
from model.ops.base import Constant, Group, Place, Rule
from model.ops.update import moment_rule, step_formula, step_rule

SLOPE = (
    "How fast the loss moves as this number is nudged, all else computed on from there: "
    "for everything that reads it, the slope there times how much the reader moves with it."
)

SET = "set by the reader"
CHOSEN = "You chose this number for this run; what would have made it plays no part."
MOVED = "You moved this number away from what the run made of it."
STEP = "The weight after learning: it moved against its own slope, a small step each time."
MOMENT = "AdamW's running average over the steps' slopes, the latest counting most."


def explain(run: Explainable, at: str, window: Window = Window()) -> Explanation:  # noqa: B008  (a constant)
    """Explain the number at `at`, listing the terms of the window.

    Raises AddressError where `at` does not parse, is out of range, or names more than one number.
    """
    parsed = parse(at)
    if isinstance(parsed, Calc):
        return _of_expression(run, parsed, window)
    address = run.check(parsed)
    if not address.is_single:
        first = tuple(i if isinstance(i, int) else (i.start or 0) for i in address.index)
        raise AddressError(f"{parsed} is more than one number.", f"Its first number is {Address(address.site, first)}.")
    node = run.graph[address.site]
    if address.step is None:
        return (_of_gradient if address.quantity else _of_value)(run, address, node, window)
    if not node.is_parameter or address.kind == "grad":
        return _in_step(run, address, window)
    return (_of_average if address.kind in ("m", "v") else _of_weight)(run, address, node, window)


def _of_expression(run: Explainable, calc: Calc, window: Window) -> Explanation:
    value, op = number(run, calc), "arithmetic"
    plain = "Arithmetic on numbers of this run."
    rule = expression_rule(run, calc)
    return _explained(run, rule, value, window, address=str(calc), kind=op, site="calc", op=op, plain=plain, formula="")


def _of_value(run: Explainable, address: Address, node: Node, window: Window) -> Explanation:
    place = _place(address)
    rule, chosen = changed(run, node.name, place, node.op.forward(run, place))
    said = {"kind": "site", "op": node.op.name, "plain": node.op.plain(run, place)}
    if chosen:
        said = {"kind": "set", "op": SET, "plain": chosen}
    formula = "" if chosen else node.op.formula(run, place)
    return _at(run, address, rule, window, **said, formula=formula, used_by=used_by(run, address))


def _of_gradient(run: Explainable, address: Address, node: Node, window: Window) -> Explanation:
    place, kind = _place(address), "gradient"
    rule, formula = gradient_rule(run, node, place), gradient_formula(run, node, place)
    readers = passed_back_to(run, node, place)
    return _at(run, address, rule, window, kind=kind, op=kind, plain=SLOPE, formula=formula, used_by=readers)


def _of_weight(run: Explainable, address: Address, node: Node, window: Window) -> Explanation:
    place, k = _place(address), address.step or 0
    rule = step_rule(run.rate, node.name, place, k, _moments(run, address, k))
    formula = step_formula(run.rate, node.op.formula(run, place).split(" = ")[0], k)
    readers = tuple(after_steps(at, k) for at in used_by(run, replace(address, quantity="")))
    said = {"kind": "update", "op": "parameter update", "plain": STEP}
    return _at(run, address, rule, window, **said, formula=formula, used_by=readers)


def _of_average(run: Explainable, address: Address, node: Node, window: Window) -> Explanation:
    k = address.step or 0
    rule = moment_rule(run.rate, address.kind, node.name, _place(address), k)
    readers = (str(replace(address, quantity=f"step({k})")),)
    said = {"kind": "average", "op": "running average", "plain": MOMENT}
    return _at(run, address, rule, window, **said, formula="", used_by=readers)


def _place(address: Address) -> Place:
    return address.index  # type: ignore[return-value]


def _moments(run: Explainable, address: Address, k: int) -> tuple[float, float]:
    """AdamW's m and v after k steps; 0 where a step reads none."""
    if run.rate.optimizer != "adamw" or not k:
        return 0.0, 0.0
    m, v = (float(run.values(replace(address, quantity=f"{moment}({k})"))) for moment in "mv")
    return m, v


def _in_step(run: Explainable, address: Address, window: Window) -> Explanation:
    """A number of the run after k steps: that run's explanation, its addresses as this run names them."""
    k = address.step or 0
    quantity = "grad" if address.kind == "grad" else ""
    e = explain(run.after(k, with_slopes=bool(quantity)), str(replace(address, quantity=quantity)), window)

    def named(at: str) -> str:
        return after_steps(at, k) if at and k else at

    terms = (
        replace(term, factors=tuple(replace(f, address=f.address and named(f.address)) for f in term.factors))
        for term in e.terms
    )
    return replace(
        e,
        address=str(address),
        terms=tuple(terms),
        subtotals=tuple(replace(s, address=named(s.address)) for s in e.subtotals),
        steps=tuple(replace(s, address=named(s.address)) for s in e.steps),
        used_by=tuple(map(named, e.used_by)),
        notes=(*e.notes, f"In the run after {k} learning step{'s' * (k != 1)}."),
    )


def changed(run: Explainable, site: str, place: tuple[int, ...], rule: Rule) -> tuple[Rule, str]:
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


def used_by(run: Explainable, address: Address) -> tuple[str, ...]:
    """Addresses (with slices) of the sites that read the number at `address` next."""
    found: dict[str, None] = {}
    for node in run.graph.consumers(address.site):
        if node.is_parameter:  # W_U is another name of W_E, not a use of it
            continue
        for index in node.op.readers(run, address.site, address.index):  # type: ignore[arg-type]
            found[str(Address(node.name, index))] = None
    return tuple(found)


def _at(run: Explainable, address: Address, rule: Rule, window: Window, **said: Any) -> Explanation:
    value = float(run.values(address))
    return _explained(run, rule, value, window, address=str(address), site=address.site, **said)


@np.errstate(all="ignore")  # what is not finite is said in the notes
def _explained(run: Explainable, rule: Rule, value: float, window: Window, **said: Any) -> Explanation:
    """`said` are the fields of the explanation that do not follow from its terms."""
    products = products_of(rule, run.numbers)
    total = total_of(rule, products, value)
    shown = listed(rule, products, window)
    rest = np.ones(len(products), dtype=bool)
    rest[shown] = False
    return Explanation(
        **said,
        value=value,
        combine=rule.combine,
        function=rule.function,
        terms=tuple(terms_of(rule, products, run.numbers, shown.tolist())),
        n_terms=len(products),
        window=window,
        rest=float(products[rest].sum()),
        total=total,
        difference=0.0 if total == value else total - value,
        allowed=allowed(rule, products, value),
        products=products,
        subtotals=tuple(subtotals_of(rule, products)),
        steps=rule.steps,
        notes=rule.notes + _not_finite(run, value, said["site"]),
    )


def _not_finite(run: Explainable, value: float, site: str) -> tuple[str, ...]:
    if np.isfinite(value) or site.endswith(".scores"):
        return ()
    first = run.first_fault()
    where = f"; the first site of the run that holds one is {first}" if first else ""
    return (f"This is not a finite number{where}.",)
