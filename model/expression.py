"""`calc(…)` addresses: their value, and their own explanation one level of arithmetic at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from model.address import Address, Binary, Calc, Call, Negative, Node, Number, Partial
from model.backward import gradient_rule
from model.errors import AddressError
from model.ops.base import (
    EXP,
    LOG,
    MAX,
    SQRT,
    Column,
    Computed,
    Constant,
    Difference,
    Floats,
    Group,
    Inverse,
    Ref,
    Rule,
    grid,
)

if TYPE_CHECKING:
    from model.run import Run

MOST_NUMBERS = 2_000_000  # in one range: several in one expression must fit a small server
MINUS = Constant("-1", -1.0)
FUNCTIONS = {"exp": EXP, "log": LOG, "sqrt": SQRT}
ELEMENTWISE: dict[str, Callable[[Floats], Floats]] = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt}
REDUCTIONS: dict[str, Callable[[Floats], Any]] = {"max": np.max, "sum": np.sum}


# -- the value


def evaluate(run: Run, node: Node) -> Floats:
    """The value in float64: a number, or an array over the sliced axes of the ranges in it."""
    with np.errstate(all="ignore"):
        return np.asarray(_evaluate(run, node), dtype=np.float64)


def number(run: Run, calc: Calc) -> float:
    """The value of a whole expression. Raises AddressError where it is not one number."""
    value = evaluate(run, calc.tree)
    if value.ndim:
        raise AddressError(f"{calc} is {value.size} numbers, not one.", "Take the sum(…) or max(…) of a range.")
    return float(value)


def _evaluate(run: Run, node: Node) -> Floats | float:
    if isinstance(node, Address):
        return run.numbers(reference(run, node))
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Negative):
        return -evaluate(run, node.operand)
    if isinstance(node, Partial):
        from model.explain import products_of

        return float(np.sum(products_of(run, partial_rule(run, node))))
    if isinstance(node, Call):
        operand = evaluate(run, node.operand)
        return np.asarray((ELEMENTWISE | REDUCTIONS)[node.name](operand))
    return _binary(node.op, evaluate(run, node.left), evaluate(run, node.right), node)


def _binary(op: str, left: Floats, right: Floats, node: Binary) -> Floats:
    if left.ndim and right.ndim and left.shape != right.shape:
        raise AddressError(f"The ranges in {node} have different shapes, {left.shape} and {right.shape}.")
    arithmetic = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
    return np.asarray(arithmetic[op](left, right))


def reference(run: Run, address: Address) -> Ref:
    """An address as a column; slices stay sliced in the array that `run.numbers` gives."""
    checked = run.check(address)
    sizes = zip(checked.index, run.shape(checked.site), strict=True)
    count = prod(len(range(*i.indices(size))) for i, size in sizes if isinstance(i, slice))
    if count > MOST_NUMBERS:
        raise AddressError(
            f"{address} is {count:,} numbers; an expression takes ranges of at most {MOST_NUMBERS:,}.",
            "As in calc(max(logits[3,:])).",
        )
    return Ref(checked.site, checked.index, checked.quantity)  # type: ignore[arg-type]


# -- its explanation


def expression_rule(run: Run, calc: Calc) -> Rule:
    """The outermost arithmetic of an expression as a rule: sums of products, a quotient, or a function."""
    node = calc.tree
    if isinstance(node, Call):
        if node.name in FUNCTIONS:
            return Rule("function", _summands(run, node.operand), function=FUNCTIONS[node.name])
        elements = (_elements(run, node.operand),)
        return Rule("sum", elements) if node.name == "sum" else Rule("function", elements, function=MAX)
    if isinstance(node, Partial):
        return partial_rule(run, node)
    if isinstance(node, Binary) and node.op == "/":
        top, bottom = _product(run, node.left), _product(run, node.right)
        return Rule("quotient", (Group(top, label="numerator"), Group(bottom, label="denominator")))
    return Rule("sum", _summands(run, node))


def _summands(run: Run, node: Node) -> tuple[Group, ...]:
    """a + b·c − d as terms (a), (b, c), (−1, d)."""
    groups: list[Group] = []
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        part, minus = stack.pop()
        if isinstance(part, Binary) and part.op in "+-":
            stack += [(part.right, minus != (part.op == "-")), (part.left, minus)]
        elif isinstance(part, Negative):
            stack.append((part.operand, not minus))
        else:
            groups.append(Group(((MINUS,) if minus else ()) + _product(run, part)))
    return tuple(groups)


def _product(run: Run, node: Node) -> tuple[Column, ...]:
    """a·b·(c+d) as factors (a, b, calc(c+d))."""
    if isinstance(node, Binary) and node.op == "*":
        return _product(run, node.left) + _product(run, node.right)
    return (_factor(run, node),)


def _factor(run: Run, node: Node) -> Column:
    if isinstance(node, Number):
        return Constant(f"{node.value:g}", node.value)
    if isinstance(node, Address) and node.is_single:
        return reference(run, node)
    return Computed(str(Calc(node)), number(run, Calc(node)))


def _elements(run: Run, node: Node) -> Group:
    """Every element of a range, or of arithmetic over ranges, as a term of its own."""
    values = evaluate(run, node)
    n = values.size
    if isinstance(node, Address):
        index = run.check(node).index
        sliced = [axis for axis, i in enumerate(index) if isinstance(i, slice)]
        sizes = values.shape
        places = grid(sizes)
        starts = [index[axis].start or 0 for axis in sliced]  # type: ignore[union-attr]
        full: list[object] = list(index)
        for axis, start, place in zip(sliced, starts, places, strict=True):
            full[axis] = place + start
        names = tuple(run.model.graph[node.site].axes[axis] for axis in sliced)
        shown = tuple(place + start for place, start in zip(places, starts, strict=True))
        return Group((Ref(node.site, tuple(full), node.quantity),), n, axes=names, places=shown)  # type: ignore[arg-type]
    return Group((Computed(lambda k: str(Calc(element(run, node, k))), values.ravel()),), n)


def element(run: Run, node: Node, k: int) -> Node:
    """Arithmetic over ranges with each range replaced by its k-th number; max(…) and sum(…) inside stay whole."""
    if isinstance(node, Address):
        index = run.check(node).index
        sliced = [axis for axis, i in enumerate(index) if isinstance(i, slice)]
        if not sliced:
            return node
        sizes = [len(range(*index[axis].indices(run.shape(node.site)[axis]))) for axis in sliced]  # type: ignore[union-attr]
        full = list(index)
        for axis, place in zip(sliced, np.unravel_index(k, sizes), strict=True):
            full[axis] = int(place) + (index[axis].start or 0)  # type: ignore[union-attr]
        return Address(node.site, tuple(full), node.quantity)
    if isinstance(node, Negative):
        return Negative(element(run, node.operand, k))
    if isinstance(node, Binary):
        return Binary(node.op, element(run, node.left, k), element(run, node.right, k))
    if isinstance(node, Call) and node.name in ELEMENTWISE:
        return Call(node.name, element(run, node.operand, k))
    return node


# -- the first terms of a sum


def rule_of(run: Run, address: Address) -> Rule:
    """The rule of the number at a checked address: its value's, or its gradient's."""
    node, place = run.model.graph[address.site], address.index
    if address.quantity == "grad":
        return gradient_rule(run, node, place)  # type: ignore[arg-type]
    if address.quantity:
        raise AddressError(f"partial(…) takes a value or a slope, not {address}.", "As in partial(logits[3,17],0:31).")
    return node.op.forward(run, place)  # type: ignore[arg-type]


def partial_rule(run: Run, node: Partial) -> Rule:
    """Terms start … stop−1 of a sum, in index order."""
    address = run.check(node.of)
    if not address.is_single:
        raise AddressError(f"partial(…) takes one number, not {node.of}.", "As in partial(logits[3,17],0:31).")
    rule = rule_of(run, address)
    if rule.combine != "sum":
        raise AddressError(f"{node.of} is not a sum, so it has no first terms.", "As in partial(logits[3,17],0:31).")
    n = sum(group.n for group in rule.groups)
    if not node.start < node.stop <= n:
        raise AddressError(f"{node.of} has terms 0 to {n - 1}, so {node.start}:{node.stop} does not fit.")
    groups, at = [], 0
    for group in rule.groups:
        start, stop = max(node.start - at, 0), min(node.stop - at, group.n)
        if start < stop:
            groups.append(_cut(group, start, stop))
        at += group.n
    return replace(rule, groups=tuple(groups))


def _cut(group: Group, start: int, stop: int) -> Group:
    def column(c: Column) -> Column:
        if isinstance(c, Ref):
            places = tuple(i if isinstance(i, int) or np.ndim(i) == 0 else i[start:stop] for i in c.index)
            return Ref(c.site, places, c.quantity)
        if isinstance(c, Inverse):
            return Inverse(column(c.of))  # type: ignore[arg-type]
        if isinstance(c, Difference):
            return Difference(column(c.minuend), column(c.subtrahend))  # type: ignore[arg-type]
        return c

    return replace(
        group,
        factors=tuple(column(c) for c in group.factors),
        n=stop - start,
        places=tuple(place[start:stop] for place in group.places),
        subtotal=None,
    )
