"""Addresses: `site[i,j,…]`, a quantity suffix, slices; and the `calc(…)` expressions over them.

Parsed by hand into small trees, never evaluated as code. An `Address` knows nothing of a run: whether its site
exists and its indices fit is `model.run`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from model.errors import AddressError

MAX_LENGTH = 4000
MAX_DEPTH = 24
MAX_SIGNS = 200  # a chain of + nests to the left as deep as it is long
EXAMPLE = "Write it as in blocks.0.attn.pattern[0,3,1], logits[3,17] or calc(logits[3,17]-logits[3,5])."

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
        where = f"[{','.join(map(_show_index, self.index))}]" if self.index else ""
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
    """left op right, op one of + - * /."""

    op: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return f"{_operand(self.left, self.op, False)}{self.op}{_operand(self.right, self.op, True)}"


@dataclass(frozen=True)
class Negative:
    """−operand."""

    operand: Node

    def __str__(self) -> str:
        return f"-{_operand(self.operand, '*', True)}"


@dataclass(frozen=True)
class Call:
    """exp, log, sqrt element by element; max and sum over all elements."""

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

FUNCTIONS = ("exp", "log", "sqrt", "max", "sum")
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2}


def _operand(node: Node, op: str, right: bool) -> str:
    """Parenthesised where reading it back would otherwise give another tree."""
    if isinstance(node, Binary):
        weaker = _RANK[node.op] < _RANK[op] or (right and _RANK[node.op] == _RANK[op])
        return f"({node})" if weaker else str(node)
    if isinstance(node, Negative) or (isinstance(node, Number) and node.value < 0):
        return f"({node})"
    return str(node)


def _show_index(i: Index) -> str:
    if isinstance(i, int):
        return str(i)
    return f"{'' if i.start is None else i.start}:{'' if i.stop is None else i.stop}"


_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.(?:[A-Za-z_][A-Za-z0-9_]*|\d+))*)"
    r"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<sign>[-+*/×÷−()\[\],:.])"
    r")"
)
_SAME_SIGN = {"×": "*", "÷": "/", "−": "-"}
_QUANTITY = re.compile(r"(.+)\.(grad|step)")
_MOMENT = re.compile(r"(.+)\.(m|v)")


class _Reader:
    """Recursive descent over the signs of one address."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._split(text)
        self.at = 0
        self.depth = 0

    def _split(self, text: str) -> list[tuple[str, str]]:
        found, pos = [], 0
        text = text.rstrip()
        while pos < len(text):
            match = _TOKEN.match(text, pos)
            if not match:
                raise self._fault(f"“{text[pos:].strip()[:12]}” cannot be read")
            kind = match.lastgroup or ""
            found.append((kind, match[kind]))
            pos = match.end()
        if sum(1 for _, sign in found if sign in "+-*/×÷−") > MAX_SIGNS:
            raise self._fault(f"it has more than {MAX_SIGNS} operations")
        return found

    def _fault(self, why: str) -> AddressError:
        return AddressError(f"The address “{self.text[:80]}” does not parse: {why}.", EXAMPLE)

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, want: str = "") -> str:
        got = self.peek()
        if not got or (want and got != want):
            missing, where = f"“{want}”" if want else "more", f"at “{got}”" if got else "at its end"
            raise self._fault(f"{missing} was expected {where}")
        self.at += 1
        return got

    def done(self) -> None:
        if self.peek():
            raise self._fault(f"“{self.peek()}” is left over")

    # -- addresses

    def address(self) -> Address:
        if self.kind() != "name":
            raise self._fault("a site's name was expected")
        name = self.take()
        quantity = ""
        if self.peek() == "(" and (moment := _MOMENT.fullmatch(name)):
            return Address(moment[1], (), self._quantity(moment[2]))
        if self.peek() == "[":
            index = self._index()
            if self.peek() == ".":
                self.take(".")
                quantity = self._quantity(self.take())
            return Address(name, index, quantity)
        if split := _QUANTITY.fullmatch(name):
            return Address(split[1], (), self._quantity(split[2]))
        return Address(name)

    def _quantity(self, word: str) -> str:
        if word not in ("grad", "step", "m", "v"):
            raise self._fault(f"“.{word}” is no quantity; .grad and .step are")
        if self.peek() == "(" or word in ("m", "v"):
            self.take("(")
            k = self._whole()
            self.take(")")
            return f"{word}({k})"
        return word

    def _index(self) -> tuple[Index, ...]:
        self.take("[")
        parts = [self._one_index()]
        while self.peek() == ",":
            self.take(",")
            parts.append(self._one_index())
        self.take("]")
        return tuple(parts)

    def _one_index(self) -> Index:
        start = None if self.peek() == ":" else self._whole()
        if self.peek() != ":":
            return start if start is not None else self._whole()
        self.take(":")
        stop = self._whole() if self.kind() == "number" else None
        return slice(start, stop)

    def _whole(self) -> int:
        if self.kind() != "number" or not self.peek().isdecimal() or len(self.peek()) > 9:
            shown = self.peek() + (self.peek(1) if self.peek() in ("-", "−") else "")
            raise self._fault(f"a whole index counted from 0 was expected{f', not “{shown}”' if shown else ''}")
        return int(self.take())

    # -- expressions

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._fault(f"it is nested more than {MAX_DEPTH} deep")
        node = self._product()
        while self.peek() in ("+", "-", "−"):
            node = Binary(self._sign(), node, self._product())
        self.depth -= 1
        return node

    def _product(self) -> Node:
        node = self._signed()
        while self.peek() in ("*", "/", "×", "÷"):
            node = Binary(self._sign(), node, self._signed())
        return node

    def _sign(self) -> str:
        sign = self.take()
        return _SAME_SIGN.get(sign, sign)

    def _signed(self) -> Node:
        if self.peek() not in ("-", "−"):
            return self._atom()
        signs = 0
        while self.peek() in ("-", "−"):
            self.take()
            signs += 1
        node = self._atom()
        return Negative(node) if signs % 2 else node

    def _atom(self) -> Node:
        if self.kind() == "number":
            return Number(float(self.take()))
        if self.peek() == "(":
            self.take("(")
            node = self.sum()
            self.take(")")
            return node
        if self.peek() == "partial" and self.peek(1) == "(":
            return self._partial()
        if self.peek() in FUNCTIONS and self.peek(1) == "(":
            name = self.take()
            self.take("(")
            node = self.sum()
            self.take(")")
            return Call(name, node)
        return self.address()

    def _partial(self) -> Partial:
        self.take("partial")
        self.take("(")
        of = self.address()
        self.take(",")
        start = 0 if self.peek() == ":" else self._whole()
        self.take(":")
        stop = self._whole()
        self.take(")")
        return Partial(of, start, stop)


def map_addresses(node: Node | Calc, change: Callable[[Address], Address]) -> Any:
    """The same tree with every address in it changed."""
    if isinstance(node, Address):
        return change(node)
    if isinstance(node, Calc):
        return Calc(map_addresses(node.tree, change))
    if isinstance(node, Binary):
        return Binary(node.op, map_addresses(node.left, change), map_addresses(node.right, change))
    if isinstance(node, Negative):
        return Negative(map_addresses(node.operand, change))
    if isinstance(node, Call):
        return Call(node.name, map_addresses(node.operand, change))
    if isinstance(node, Partial):
        return Partial(change(node.of), node.start, node.stop)
    return node


def parse(text: str) -> Address | Calc:
    """Read one address. Raises AddressError that names what is wrong and shows a correct example."""
    if len(text) > MAX_LENGTH:
        raise AddressError(f"The address is {len(text)} characters long; the limit is {MAX_LENGTH}.", EXAMPLE)
    reader = _Reader(text)
    if not reader.tokens:
        raise AddressError("The address is empty.", EXAMPLE)
    found: Address | Calc
    if reader.peek() == "calc" and reader.peek(1) == "(":
        reader.take("calc")
        reader.take("(")
        found = Calc(reader.sum())
        reader.take(")")
    else:
        found = reader.address()
    reader.done()
    return found
