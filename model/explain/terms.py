"""A rule worked out: its terms multiplied, added up and listed in float64, wherever their factors are looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from model.errors import ReaderError
from model.ops.base import Column, Constant, Floats, Group, Ints, Product, Rule

Order = Literal["index", "size"]
Lookup = Callable[[Column], Floats]  # the values of a column of factors, one a term or one for all

TOLERANCE = 1e-5  # of the sum of the terms' sizes for a sum, of the value otherwise
FLOOR = 1e-12


@dataclass(frozen=True)
class Window:
    """Which terms are listed: `limit` of them from `offset` on, in index order or the largest first."""

    offset: int = 0
    limit: int = 20
    order: Order = "index"

    def __post_init__(self) -> None:
        if self.offset < 0 or self.limit < 0:
            raise ReaderError(f"offset and limit are {self.offset} and {self.limit}, but may not be negative.")


@dataclass(frozen=True)
class Factor:
    """One factor of a term: a number with an address, or a named constant (its name is LaTeX)."""

    value: float
    address: str | None = None
    constant: str | None = None


@dataclass(frozen=True)
class Term:
    """One term. `index` is its place in index order; `place` names that place on the axes summed over.

    `how` says how the product is made of the factors where they are not multiplied.
    """

    index: int
    product: float
    factors: tuple[Factor, ...]
    label: str = ""
    place: tuple[tuple[str, int], ...] = ()
    how: Product | None = None


@dataclass(frozen=True)
class Subtotal:
    """The part of a sum that one place on its first axis contributes, e.g. one attention head."""

    axis: str
    place: int
    value: float
    address: str


def products_of(rule: Rule, lookup: Lookup) -> Floats:
    """Every term's product in index order."""
    parts = [_products(group, lookup) for group in rule.groups]
    return np.concatenate(parts) if parts else np.empty(0)


def _products(group: Group, lookup: Lookup) -> Floats:
    values = [lookup(column) for column in group.factors]
    if group.product is not None:
        product = group.product.apply(values)
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


def allowed(rule: Rule, products: Floats, value: float) -> float:
    """The largest difference between total and value that counts as agreeing."""
    size = float(np.abs(products).sum()) if rule.combine == "sum" else abs(value)
    return max(TOLERANCE * size, FLOOR)


def listed(rule: Rule, products: Floats, window: Window) -> Ints:
    """The indices of the terms in a window; a quotient's numerator stays first."""
    if window.order == "index":
        ordered = np.arange(len(products))
    else:
        size = np.abs(products)
        if rule.combine == "quotient":
            size[0] = np.inf
        ordered = np.argsort(-size, kind="stable")
    return ordered[window.offset : window.offset + window.limit]


def terms_of(rule: Rule, products: Floats, lookup: Lookup, indices: list[int]) -> Iterator[Term]:
    """The terms at these indices, each group's columns looked up once."""
    starts = np.cumsum([0, *(group.n for group in rule.groups)])
    columns = [[np.broadcast_to(lookup(column), (group.n,)) for column in group.factors] for group in rule.groups]
    for index in indices:
        g = int(np.searchsorted(starts, index, side="right")) - 1
        group, n = rule.groups[g], index - int(starts[g])
        factors = tuple(_factor(c, float(values[n]), n) for c, values in zip(group.factors, columns[g], strict=True))
        place = tuple((axis, int(p[n])) for axis, p in zip(group.axes, group.places, strict=True))
        yield Term(index, float(products[index]), factors, group.label, place, group.product)


def _factor(column: Column, value: float, n: int) -> Factor:
    if isinstance(column, Constant):
        return Factor(value, constant=column.name)
    return Factor(value, address=column.address(n))


def subtotals_of(rule: Rule, products: Floats) -> Iterator[Subtotal]:
    """The partial sums of those groups that have addresses for them."""
    start = 0
    for group in rule.groups:
        if group.subtotal is not None:
            sums = np.bincount(group.places[0], weights=products[start : start + group.n])
            yield from (Subtotal(group.axes[0], n, float(v), group.subtotal(n)) for n, v in enumerate(sums))
        start += group.n
