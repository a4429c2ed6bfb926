"""Addresses and expressions as Python: `calc(logits[3,17]-logits[3,5])` is
`run.value("logits")[3, 17] - run.value("logits")[3, 5]` to a `PlainRun`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from model.address.parser import parse
from model.address.trees import Address, Calc, Call, Index, Negative, Node, Number, Partial, show_index
from model.errors import AddressError
from model.explain.expression import FUNCTIONS

if TYPE_CHECKING:
    from model import Run
    from model.explain.terms import Factor

MOST_TERMS = 2_000

NAMED = {"@": "np.dot", "/": "np.divide"}  # Python's own / of two written numbers raises where the site shows ∞


def expression(run: Run, node: Node) -> str:
    """Arithmetic as Python, with parentheses wherever they could matter."""
    match node:
        case Address():
            return number(run, node)
        case Number():
            return floats(node.value)
        case Negative():
            return f"(-{expression(run, node.operand)})"
        case Call():
            function = FUNCTIONS.get(node.name)
            written = function.numpy if function and function.numpy else f"np.{node.name}({{}})"
            return written.format(expression(run, node.operand))
        case Partial():
            return _written_out(run, node)
    left, right = expression(run, node.left), expression(run, node.right)
    return f"{NAMED[node.op]}({left}, {right})" if node.op in NAMED else f"({left} {node.op} {right})"


def _written_out(run: Run, node: Partial) -> str:
    """The first terms of a sum."""
    e = run.explain(str(Calc(node)), limit=MOST_TERMS)
    if e.n_terms > MOST_TERMS:
        raise AddressError(f"{node} is {e.n_terms:,} terms; a notebook writes out at most {MOST_TERMS:,}.")
    products = (" * ".join(_factor(run, factor) for factor in term.factors) for term in e.terms)
    return "(" + "\n    + ".join(products) + ")"


def _factor(run: Run, factor: Factor) -> str:
    if factor.address is None:
        return floats(factor.value)
    parsed = parse(factor.address)
    return expression(run, parsed.tree if isinstance(parsed, Calc) else parsed)


def number(run: Run, address: Address) -> str:
    """The numbers at an address."""
    address = run.check(address)
    after = f", {address.step}" if address.step else ""
    kind = {"grad": "slope", "m": "moment", "v": "moment"}.get(address.kind, "value")
    which = f'"{address.kind}", ' if kind == "moment" else ""
    index = f"[{', '.join(map(show_index, address.index))}]" if address.index else ""
    return f'run.{kind}({which}"{address.site}"{after}){index}'


def place(index: Iterable[Index]) -> str:
    """An index as a tuple that Python reads."""
    inside = ", ".join(f"slice({i.start}, {i.stop})" if isinstance(i, slice) else str(i) for i in index)
    return f"({inside},)" if inside else "()"


def floats(x: float) -> str:
    """A number as Python reads it back, without a digit lost."""
    return repr(float(x)) if math.isfinite(x) else f'float("{x}")'
