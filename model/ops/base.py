"""What a rule is made of: how a number follows from the numbers it reads, written as terms.

A rule is declared, not computed: groups of terms whose factors point at places of the run. `model.explain` looks the
numbers up, multiplies and adds them in float64. The same groups serve a table, a chart, a download and a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.address.trees import Address

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Place = tuple[int, ...]
Combine = Literal["sum", "quotient", "function", "given"]


@dataclass(frozen=True)
class Ref:
    """One number of the run per term: `index` holds, per axis, a fixed place or one place for each term."""

    site: str
    index: tuple[int | Ints, ...] = ()
    quantity: str = ""

    def address(self, n: int) -> str:
        """The address that term `n` (0-based within its group) has in this column."""
        place = tuple(int(i if np.ndim(i) == 0 else i[n]) for i in self.index)  # type: ignore[index]
        return str(Address(self.site, place, self.quantity))


def grad(site: str, index: tuple[int | Ints, ...] = ()) -> Ref:
    """∂loss/∂site[index] as a column."""
    return Ref(site, index, "grad")


@dataclass(frozen=True)
class Inverse:
    """1 / of, as one factor."""

    of: Ref

    def address(self, n: int) -> str:
        return f"calc(1/{self.of.address(n)})"


@dataclass(frozen=True)
class Difference:
    """minuend − subtrahend as one factor, e.g. x − mean."""

    minuend: Ref
    subtrahend: Ref

    def address(self, n: int) -> str:
        return f"calc({self.minuend.address(n)}-{self.subtrahend.address(n)})"


@dataclass(frozen=True)
class Computed:
    """An expression as a factor: its address and its value in float64, one for all terms or one for each."""

    expression: str | Callable[[int], str]
    value: float | Floats

    def address(self, n: int) -> str:
        return self.expression if isinstance(self.expression, str) else self.expression(n)


@dataclass(frozen=True)
class Constant:
    """A named number that no one learned: 1/d, ε, −1, the mask's −∞. The name is LaTeX."""

    name: str
    value: float


Column = Ref | Inverse | Difference | Computed | Constant


def refs_in(column: Column) -> tuple[Ref, ...]:
    """The places of the run that a column reads."""
    if isinstance(column, Difference):
        return (column.minuend, column.subtrahend)
    if isinstance(column, Inverse):
        return (column.of,)
    return (column,) if isinstance(column, Ref) else ()


def map_refs(column: Column, change: Callable[[Ref], Ref]) -> Column:
    """The same column with every place of the run in it changed."""
    if isinstance(column, Difference):
        return Difference(change(column.minuend), change(column.subtrahend))
    if isinstance(column, Inverse):
        return Inverse(change(column.of))
    return change(column) if isinstance(column, Ref) else column


@dataclass(frozen=True)
class Product:
    """How a term is made of its factors where they are not multiplied: in numbers, in LaTeX, and in PyTorch.

    `latex` takes the factors as LaTeX; `torch` is an expression over `factors`, one row for each term.
    """

    apply: Callable[[Sequence[Floats]], Floats]
    latex: Callable[[Sequence[str]], str]
    torch: str


@dataclass(frozen=True)
class Group:
    """`n` terms of one kind. A term's product is the product of its factors, unless `product` says how it is made.

    `labels` name the terms' running axes, e.g. ("head", "d_head"); `places` gives each term's place on them.
    `subtotal`, if set, sums the group by the first running axis: place on that axis -> address of the partial sum.
    """

    factors: tuple[Column, ...]
    n: int = 1
    label: str = ""
    axes: tuple[str, ...] = ()
    places: tuple[Ints, ...] = ()
    product: Product | None = None
    subtotal: Callable[[int], str] | None = None


@dataclass(frozen=True)
class Curve:
    """How a function of one number is drawn: by its name, from `low` to `high`.

    says     how its value at a number is said; {} is the number
    falls    whether it goes down, so that its words stand on the right
    inverse  the number back from the value, where a rule may go round the function
    """

    name: str
    f: Callable[[float], float]
    low: float
    high: float
    says: str
    falls: bool = False
    inverse: Callable[[float], float] | None = None


@dataclass(frozen=True)
class Function:
    """A named function of the sum of a rule's terms (max: of the terms).

    latex      has one `{}` for the argument
    torch      how it is written in PyTorch; `{}` stands for the terms' products
    numpy      how it is written in NumPy where an expression calls it, if not np.name(…)
    curve      how it is drawn, if it is
    of_terms   whether it is a function of the terms, not of their sum
    """

    name: str
    latex: str
    apply: Callable[[Floats], float]
    torch: str
    numpy: str = ""
    curve: Curve | None = None
    of_terms: bool = False


@dataclass(frozen=True)
class Step:
    """One step of a formula on the way to its value. `address` is the expression that computes it."""

    latex: str
    value: float
    address: str = ""


@dataclass(frozen=True)
class Rule:
    """How one number is made. The total follows from the terms' products by `combine`:

    sum       Σ products
    quotient  the first product ÷ the sum of the others
    function  `function` of the sum of the products (max: of the products)
    given     no terms: a token id, a learned weight
    """

    combine: Combine
    groups: tuple[Group, ...] = ()
    function: Function | None = None
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


def summed(axis: str, places: Ints, *factors: Column, label: str = "", product: Product | None = None) -> Group:
    """A term for each of these places on one axis."""
    return Group(factors, len(places), label, (axis,), (places,), product)


def fraction(top: int, bottom: int) -> Constant:
    """A factor such as 1/d."""
    return Constant(rf"\tfrac{{{top}}}{{{bottom}}}", top / bottom)


def every() -> slice:
    """The slice `:`."""
    return slice(None, None)


def grid(sizes: Sequence[int]) -> tuple[Ints, ...]:
    """The places of all terms over axes of these sizes, the last axis running fastest: one array per axis."""
    if not sizes:
        return ()
    return tuple(axis.ravel() for axis in np.indices(tuple(sizes), dtype=np.int64))


def along(symbol: str) -> str:
    """LaTeX of the loss's slope along a quantity: ∂L/∂x."""
    return rf"\frac{{\partial L}}{{\partial {symbol}}}"


def subscript(symbol: str, at: Sequence[int | str]) -> str:
    """`x` and (3, 'i') to `x_{3,i}`; a symbol with a subscript of its own, `W_Q`, to `W^{Q}_{3,i}`."""
    if not at:
        return symbol
    base, own, name = symbol.partition("_")
    return f"{base}{f'^{{{name}}}' if own else ''}_{{{','.join(map(str, at))}}}"


def bracketed(latex: str) -> str:
    """A number in brackets where it has a sign."""
    return f"({latex})" if latex.startswith("-") else latex


def of_sum(f: Callable[[float], float]) -> Callable[[Floats], float]:
    """A function of one number, applied to the sum of the terms."""
    return lambda products: f(float(products.sum()))


def log(x: float) -> float:
    """The natural logarithm, −∞ at 0, undefined (NaN) below."""
    if x > 0:
        return math.log(x)
    return -math.inf if x == 0 else math.nan


def minus_log(p: float) -> float:
    """−log p, ∞ at 0."""
    return -math.log(p) if p > 0 else math.inf


def arc_cosine(x: float) -> float:
    """The angle in radians whose cosine is x, rounding beyond ±1 forgiven; NaN farther out."""
    return math.acos(min(max(x, -1.0), 1.0)) if abs(x) <= 1 + 1e-12 else math.nan


IDENTITY = Function("identity", "{}", of_sum(lambda x: x), "{}.sum()")
SQRT = Function("sqrt", r"\sqrt{{{}}}", of_sum(math.sqrt), "{}.sum().sqrt()")
EXP = Function(
    "exp", r"e^{{{}}}", of_sum(math.exp), "{}.sum().exp()",
    curve=Curve("e to the power of score − max", math.exp, -5.0, 0.0, "e to the {}"),
)  # fmt: skip
LOG = Function("log", r"\log\left({}\right)", of_sum(log), "{}.sum().log()")
MINUS_LOG = Function(
    "-log", r"-\log\left({}\right)", of_sum(minus_log), "-{}.sum().log()",
    curve=Curve("−log p", minus_log, 0.01, 1.0, "−log {}", falls=True, inverse=lambda x: math.exp(-x)),
)  # fmt: skip
ACOS = Function(
    "acos", r"\arccos\left({}\right)", of_sum(arc_cosine), "{}.sum().clamp(-1, 1).acos()",
    "np.arccos(np.clip({}, -1, 1))",
)  # fmt: skip
POSITIVE = Function(
    "positive", r"\mathrm{{positive}}\left({}\right)", of_sum(lambda x: float(x > 0)), "({}.sum() > 0).double()",
    "np.float64({} > 0)",
)  # fmt: skip
MAX = Function("max", r"\max\left({}\right)", lambda products: float(products.max()), "{}.max()", of_terms=True)

PICKED = Product(
    lambda factors: factors[1], lambda latex: latex[1], "factors[:, 1]  # the first only says which row"
)  # fmt: skip
RAISED = Product(
    lambda factors: np.asarray(np.exp(factors[0] - factors[1])),
    lambda latex: f"e^{{{latex[0]} - {bracketed(latex[1])}}}",
    "(factors[:, 0] - factors[:, 1]).exp()",
)
