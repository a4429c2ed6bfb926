"""What an address is made of: a place of a run, and the small trees of `calc(…)` over such places.

They know nothing of a run: whether a site exists and indices fit is a run's business. `str` writes each as
`model.address.parser.parse` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

Index = int | slice


@dataclass(frozen=True)
class Address:
    """A site or parameter, an index per axis (none: the whole tensor), and which quantity at that place.

    `quantity` is "" for the value itself, "grad" for its slope, "step(k)" and "grad(k)" for both after k learning
    steps ("step" is one step), "m(k)" and "v(k)" for AdamW's running averages.
    """

    site: str
    index: tuple[Index, ...] = ()
    quantity: str = ""

    def __str__(self) -> str:
        where = f"[{','.join(map(show_index, self.index))}]" if self.index else ""
        return self.site + where + (f".{self.quantity}" if self.quantity else "")

    @property
    def step(self) -> int | None:
        """How many learning steps were taken, for a quantity that says so."""
        if self.quantity == "step":
            return 1
        return int(self.quantity[:-1].partition("(")[2]) if self.quantity.endswith(")") else None

    @property
    def kind(self) -> str:
        """The quantity without its number of steps: "", grad, step, m or v."""
        return self.quantity.partition("(")[0]

    @property
    def is_single(self) -> bool:
        """True where every index is one number (a scalar site has none)."""
        return all(isinstance(i, int) for i in self.index)


@dataclass(frozen=True)
class Number:
    """A constant written in an expression."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:.17g}"


@dataclass(frozen=True)
class Binary:
    """left op right, op one of + - * / and @, the sum of products that is written dot(left,right)."""

    op: str
    left: Node
    right: Node

    def __str__(self) -> str:
        if self.op == "@":
            return f"dot({self.left},{self.right})"
        return f"{_operand(self.left, self.op, False)}{self.op}{_operand(self.right, self.op, True)}"


@dataclass(frozen=True)
class Negative:
    """−operand."""

    operand: Node

    def __str__(self) -> str:
        return f"-{_operand(self.operand, '*', True)}"


@dataclass(frozen=True)
class Call:
    """exp, log, sqrt, acos, positive element by element; max, sum and mean over all elements."""

    name: str
    operand: Node

    def __str__(self) -> str:
        return f"{self.name}({self.operand})"


@dataclass(frozen=True)
class Partial:
    """The first terms of a sum: terms start … stop−1 of the explanation of `of`."""

    of: Address
    start: int
    stop: int

    def __str__(self) -> str:
        return f"partial({self.of},{self.start}:{self.stop})"


@dataclass(frozen=True)
class Calc:
    """A whole expression as an address."""

    tree: Node

    def __str__(self) -> str:
        return f"calc({self.tree})"


Node = Address | Number | Binary | Negative | Call | Partial
N = TypeVar("N", bound=Node | Calc)

FUNCTIONS = ("exp", "log", "sqrt", "acos", "positive", "max", "sum", "mean")
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2, "@": 3}


def _operand(node: Node, op: str, right: bool) -> str:
    """Parenthesised where reading it back would otherwise give another tree."""
    if isinstance(node, Binary):
        weaker = _RANK[node.op] < _RANK[op] or (right and _RANK[node.op] == _RANK[op])
        return f"({node})" if weaker else str(node)
    if isinstance(node, Negative) or (isinstance(node, Number) and node.value < 0):
        return f"({node})"
    return str(node)


def show_index(i: Index) -> str:
    """An index as it is written between brackets."""
    if isinstance(i, int):
        return str(i)
    return f"{'' if i.start is None else i.start}:{'' if i.stop is None else i.stop}"


# -- going through a tree


def operands(node: Node | Calc) -> tuple[Node, ...]:
    """What stands right below a node, from left to right."""
    if isinstance(node, Binary):
        return node.left, node.right
    if isinstance(node, Negative | Call):
        return (node.operand,)
    if isinstance(node, Calc):
        return (node.tree,)
    return (node.of,) if isinstance(node, Partial) else ()


def with_operands(node: N, below: Iterable[Node]) -> N:
    """The same node over other operands."""
    names = [field.name for field in fields(node) if isinstance(getattr(node, field.name), Node)]
    changed: dict[str, Any] = dict(zip(names, below, strict=True))
    return replace(node, **changed)


def addresses(node: Node | Calc) -> Iterator[Address]:
    """Every address in a tree, from left to right."""
    if isinstance(node, Address):
        yield node
    for operand in operands(node):
        yield from addresses(operand)


def map_addresses(node: N, change: Callable[[Address], Address]) -> N:
    """The same tree with every address in it changed."""
    if isinstance(node, Address):
        return change(node)  # type: ignore[return-value]
    return with_operands(node, [map_addresses(operand, change) for operand in operands(node)])
