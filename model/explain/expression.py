"""`calc(…)` addresses: their value, and their own explanation one level of arithmetic at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from model.address import trees
from model.address.trees import Address, Binary, Calc, Call, Negative, Node, Number, Partial
from model.errors import AddressError
from model.explain.explainable import Explainable, rule_after_steps
from model.explain.gradients import gradient_rule
from model.explain.terms import products_of
from model.ops import base
from model.ops.base import Column, Computed, Constant, Floats, Group, Ref, Rule, grid

MOST_NUMBERS = 2_000_000  # in one range: several in one expression must fit a small server
MOST_IN_DOT = 16_000_000  # a range that a dot product reads and gives back: a whole weight matrix
MOST_PRODUCTS = 20_000_000  # multiplications of one dot(…)
MINUS = Constant("-1", -1.0)
FUNCTIONS = {f.name: f for f in (base.EXP, base.LOG, base.SQRT, base.ACOS, base.POSITIVE)}
ELEMENTWISE: dict[str, Callable[[Floats], Floats]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "acos": np.vectorize(base.arc_cosine, otypes=[np.float64]),
    "positive": lambda x: np.asarray(x > 0, dtype=np.float64),
}
REDUCTIONS: dict[str, Callable[[Floats], Any]] = {"max": np.max, "sum": np.sum, "mean": np.mean}


# -- the value


def evaluate(run: Explainable, node: Node) -> Floats:
    """The value in float64: a number, or an array over the sliced axes of the ranges in it."""
    with np.errstate(all="ignore"):
        return np.asarray(_value(run, node), dtype=np.float64)


def number(run: Explainable, calc: Calc) -> float:
    """The value of a whole expression. Raises AddressError where it is not one number."""
    value = evaluate(run, calc.tree)
    if value.ndim:
        raise AddressError(f"{calc} is {value.size} numbers, not one.", "Take the sum(…) or max(…) of a range.")
    return float(value)


def _value(run: Explainable, node: Node) -> Floats | float:
    match node:
        case Address():
            return run.numbers(reference(run, node))
        case Number():
            return node.value
        case Negative():
            return -evaluate(run, node.operand)
        case Call():
            return np.asarray((ELEMENTWISE | REDUCTIONS)[node.name](evaluate(run, node.operand)))
        case Partial():
            return float(np.sum(products_of(partial_rule(run, node), run.numbers)))
        case Binary(op="@"):  # whose ranges may be as large as a matrix
            return _dot(_read_by_dot(run, node.left), _read_by_dot(run, node.right), node)
        case Binary():
            return _arithmetic(evaluate(run, node.left), evaluate(run, node.right), node)


def _read_by_dot(run: Explainable, node: Node) -> Floats:
    return run.numbers(reference(run, node, MOST_IN_DOT)) if isinstance(node, Address) else evaluate(run, node)


def _dot(left: Floats, right: Floats, node: Binary) -> Floats:
    """Products summed over the last axis of `left` and the first of `right`, each a row or a matrix."""
    if not (1 <= left.ndim <= 2 and 1 <= right.ndim <= 2):
        raise AddressError(
            f"{node} takes two ranges of one or two axes.", "As in calc(dot(W_E[17,:],ln_final.out[3,:]))."
        )
    if left.shape[-1] != right.shape[0]:
        raise AddressError(f"The ranges in {node} do not fit: {left.shape[-1]} numbers meet {right.shape[0]}.")
    if left.size * right.size // left.shape[-1] > MOST_PRODUCTS:
        raise AddressError(f"{node} multiplies more than {MOST_PRODUCTS:,} pairs.", "Take one row or one column.")
    return np.asarray(np.dot(left, right))


def _arithmetic(left: Floats, right: Floats, node: Binary) -> Floats:
    if left.ndim and right.ndim and left.shape != right.shape:
        raise AddressError(f"The ranges in {node} have different shapes, {left.shape} and {right.shape}.")
    ufuncs = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
    return np.asarray(ufuncs[node.op](left, right))


def reference(run: Explainable, address: Address, most: int = MOST_NUMBERS) -> Ref:
    """An address as a column; slices stay sliced in the array that `run.numbers` gives."""
    checked = run.check(address)
    sizes = zip(checked.index, run.shape(checked.site), strict=True)
    count = prod(len(range(*i.indices(size))) for i, size in sizes if isinstance(i, slice))
    if count > most:
        raise AddressError(
            f"{address} is {count:,} numbers; an expression takes ranges of at most {most:,}.",
            "As in calc(max(logits[3,:])).",
        )
    return Ref(checked.site, checked.index, checked.quantity)  # type: ignore[arg-type]


# -- its explanation


def expression_rule(run: Explainable, calc: Calc) -> Rule:
    """The outermost arithmetic of an expression as a rule: sums of products, a quotient, or a function."""
    node = calc.tree
    if isinstance(node, Call):
        return _call_rule(run, node)
    if isinstance(node, Partial):
        return partial_rule(run, node)
    if isinstance(node, Binary) and node.op == "/":
        top, bottom = _product(run, node.left), _product(run, node.right)
        return Rule("quotient", (Group(top, label="numerator"), Group(bottom, label="denominator")))
    if isinstance(node, Binary) and node.op == "@":
        return Rule("sum", (_elements(run, (node.left, node.right)),))
    return Rule("sum", _summands(run, node))


def _call_rule(run: Explainable, node: Call) -> Rule:
    if node.name in FUNCTIONS:
        return Rule("function", _summands(run, node.operand), function=FUNCTIONS[node.name])
    elements = _elements(run, _multiplied(node.operand))
    if node.name == "max":
        return Rule("function", (elements,), function=base.MAX)
    if node.name == "mean":
        share = Constant(rf"\tfrac{{1}}{{{elements.n}}}", 1 / elements.n)
        elements = replace(elements, factors=(share, *elements.factors))
    return Rule("sum", (elements,))


def _summands(run: Explainable, node: Node) -> tuple[Group, ...]:
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


def _multiplied(node: Node) -> tuple[Node, ...]:
    """a·b·(c+d) as a, b, c+d."""
    if isinstance(node, Binary) and node.op == "*":
        return _multiplied(node.left) + _multiplied(node.right)
    return (node,)


def _product(run: Explainable, node: Node) -> tuple[Column, ...]:
    """a·b·(c+d) as factors (a, b, calc(c+d))."""
    return tuple(_factor(run, part) for part in _multiplied(node))


def _factor(run: Explainable, node: Node) -> Column:
    if isinstance(node, Number):
        return Constant(f"{node.value:g}", node.value)
    if isinstance(node, Address) and node.is_single:
        return reference(run, node)
    return Computed(str(Calc(node)), number(run, Calc(node)))


# -- ranges: every element a term of its own


def _elements(run: Explainable, parts: Sequence[Node]) -> Group:
    """Ranges of one shape, and single numbers, multiplied element by element: a term for each element."""
    values = [evaluate(run, part) for part in parts]
    shape = max((value.shape for value in values), key=len)
    columns = tuple(_column(run, part, value) for part, value in zip(parts, values, strict=True))
    first = next((part for part in parts if isinstance(part, Address) and _sliced(run, part)), None)
    if first is None:
        return Group(columns, prod(shape))
    places = [place + start for place, (_, start) in zip(grid(shape), _sliced(run, first), strict=True)]
    axes = run.graph[first.site].axes
    return Group(columns, prod(shape), axes=tuple(axes[axis] for axis, _ in _sliced(run, first)), places=tuple(places))


def _column(run: Explainable, node: Node, values: Floats) -> Column:
    """A factor of every element: a place for each where the node is a range, else arithmetic for each."""
    if not values.ndim:
        return _factor(run, node)
    if isinstance(node, Address):
        index: list[Any] = list(run.check(node).index)
        for (axis, start), place in zip(_sliced(run, node), grid(values.shape), strict=True):
            index[axis] = place + start
        return Ref(node.site, tuple(index), node.quantity)
    shape = values.shape

    def one(k: int) -> str:
        return str(Calc(pick(run, node, tuple(map(int, np.unravel_index(k, shape))))))

    return Computed(one, values.ravel())


def _sliced(run: Explainable, address: Address) -> list[tuple[int, int]]:
    """The axes of an address that are ranges, each with the place where its range starts."""
    return [(axis, i.start or 0) for axis, i in enumerate(run.check(address).index) if isinstance(i, slice)]


def _axes_of(run: Explainable, node: Node) -> int:
    """How many axes the value of a node has."""
    if isinstance(node, Address):
        return len(_sliced(run, node))
    below = [_axes_of(run, operand) for operand in trees.operands(node)]
    if isinstance(node, Binary):
        return sum(below) - 2 if node.op == "@" else max(below)
    return below[0] if isinstance(node, Negative) or (isinstance(node, Call) and node.name in ELEMENTWISE) else 0


def pick(run: Explainable, node: Node, place: tuple[int | None, ...]) -> Node:
    """Arithmetic over ranges at one place of them; an axis whose place is None stays a range.

    max(…), sum(…) and mean(…) inside are single numbers and stay whole.
    """
    if not _axes_of(run, node):
        return node
    if isinstance(node, Address):
        index = list(run.check(node).index)
        for (axis, start), i in zip(_sliced(run, node), place, strict=True):
            index[axis] = index[axis] if i is None else i + start
        return Address(node.site, tuple(index), node.quantity)
    if isinstance(node, Binary) and node.op == "@":
        rows = _axes_of(run, node.left) - 1
        return Binary("@", pick(run, node.left, (*place[:rows], None)), pick(run, node.right, (None, *place[rows:])))
    return trees.with_operands(node, [pick(run, operand, place) for operand in trees.operands(node)])


# -- the first terms of a sum


def rule_of(run: Explainable, address: Address) -> Rule:
    """The rule of the number at a checked address: its value's, or its gradient's."""
    node, place = run.graph[address.site], address.index
    if address.quantity == "grad":
        return gradient_rule(run, node, place)  # type: ignore[arg-type]
    if address.kind == "grad" and address.step is not None:
        later = gradient_rule(run.after(address.step, with_slopes=True), node, place)  # type: ignore[arg-type]
        return rule_after_steps(later, address.step) if address.step else later
    if address.quantity:
        raise AddressError(f"partial(…) takes a value or a slope, not {address}.", "As in partial(logits[3,17],0:31).")
    return node.op.forward(run, place)  # type: ignore[arg-type]


def partial_rule(run: Explainable, node: Partial) -> Rule:
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
    """Terms start … stop−1 of a group."""

    def cut(ref: Ref) -> Ref:
        return replace(ref, index=tuple(i if np.ndim(i) == 0 else i[start:stop] for i in ref.index))  # type: ignore[index]

    return replace(
        group,
        factors=tuple(base.map_refs(column, cut) for column in group.factors),
        n=stop - start,
        places=tuple(place[start:stop] for place in group.places),
        subtotal=None,
    )
