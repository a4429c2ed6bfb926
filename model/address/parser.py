"""Reading an address: `site[i,j,…]`, a quantity suffix, slices; and the `calc(…)` expressions over them.

Parsed by hand into the small trees of `model.address.trees`, never evaluated as code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

from model.address.trees import FUNCTIONS, Address, Binary, Calc, Call, Index, Negative, Node, Number, Partial
from model.errors import AddressError

__all__ = ["Address", "Calc", "Index", "parse"]

T = TypeVar("T")

MAX_LENGTH = 4000
MAX_DEPTH = 24
MAX_SIGNS = 200  # a chain of + nests to the left as deep as it is long
DOT = 10  # signs that a dot(…) counts as: it may read a whole matrix
EXAMPLE = "Write it as in blocks.0.attn.pattern[0,3,1], logits[3,17] or calc(logits[3,17]-logits[3,5])."

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
                raise self.fault(f"“{text[pos:].strip()[:12]}” cannot be read")
            kind = match.lastgroup or ""
            found.append((kind, match[kind]))
            pos = match.end()
        if sum(DOT if sign == "dot" else sign in "+-*/×÷−" for _, sign in found) > MAX_SIGNS:
            raise self.fault(f"it has more than {MAX_SIGNS} operations")
        return found

    def fault(self, why: str) -> AddressError:
        return AddressError(f"The address “{self.text[:80]}” does not parse: {why}.", EXAMPLE)

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, want: str = "") -> str:
        got = self.peek()
        if not got or (want and got != want):
            missing, where = f"“{want}”" if want else "more", f"at “{got}”" if got else "at its end"
            raise self.fault(f"{missing} was expected {where}")
        self.at += 1
        return got

    def taken(self, *signs: str) -> str:
        """The next sign where it is one of these, else ""."""
        return self.take() if self.peek() in signs else ""

    # -- addresses

    def address(self) -> Address:
        if self.kind() != "name":
            raise self.fault("a site's name was expected")
        name = self.take()
        if self.peek() == "(" and (moment := _MOMENT.fullmatch(name)):
            return Address(moment[1], (), self._quantity(moment[2]))
        if self.taken("["):
            parts = [self._index()]
            while self.taken(","):
                parts.append(self._index())
            self.take("]")
            return Address(name, tuple(parts), self._quantity(self.take()) if self.taken(".") else "")
        if split := _QUANTITY.fullmatch(name):
            return Address(split[1], (), self._quantity(split[2]))
        return Address(name)

    def _quantity(self, word: str) -> str:
        if word not in ("grad", "step", "m", "v"):
            raise self.fault(f"“.{word}” is no quantity; .grad and .step are")
        if self.peek() == "(" or word in ("m", "v"):
            return f"{word}({self.bracketed(self._whole)})"
        return word

    def _index(self) -> Index:
        start = None if self.peek() == ":" else self._whole()
        if start is not None and self.peek() != ":":
            return start
        self.take(":")
        return slice(start, self._whole() if self.kind() == "number" else None)

    def _whole(self) -> int:
        if self.kind() != "number" or not self.peek().isdecimal() or len(self.peek()) > 9:
            shown = self.peek() + (self.peek(1) if self.peek() in ("-", "−") else "")
            raise self.fault(f"a whole index counted from 0 was expected{f', not “{shown}”' if shown else ''}")
        return int(self.take())

    # -- expressions

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fault(f"it is nested more than {MAX_DEPTH} deep")
        node = self._product()
        while sign := self.taken("+", "-", "−"):
            node = Binary(_SAME_SIGN.get(sign, sign), node, self._product())
        self.depth -= 1
        return node

    def _product(self) -> Node:
        node = self._signed()
        while sign := self.taken("*", "/", "×", "÷"):
            node = Binary(_SAME_SIGN.get(sign, sign), node, self._signed())
        return node

    def _signed(self) -> Node:
        is_negative = False
        while self.taken("-", "−"):
            is_negative = not is_negative
        return Negative(self._atom()) if is_negative else self._atom()

    def _atom(self) -> Node:
        if self.kind() == "number":
            value = float(self.take())
            if math.isinf(value):  # which could not be written again
                raise self.fault("a number of it is too large")
            return Number(value)
        if self.peek() == "(":
            return self.bracketed(self.sum)
        if self.peek(1) != "(" or self.peek() not in ("partial", "dot", *FUNCTIONS):
            return self.address()
        name = self.take()
        if name in FUNCTIONS:
            return Call(name, self.bracketed(self.sum))
        return self.bracketed(self._partial) if name == "partial" else self.bracketed(self._dot)

    def bracketed(self, inside: Callable[[], T]) -> T:
        self.take("(")
        found = inside()
        self.take(")")
        return found

    def _dot(self) -> Binary:
        left = self.sum()
        self.take(",")
        return Binary("@", left, self.sum())

    def _partial(self) -> Partial:
        of = self.address()
        self.take(",")
        start = 0 if self.peek() == ":" else self._whole()
        self.take(":")
        return Partial(of, start, self._whole())


def parse(text: str) -> Address | Calc:
    """Read one address. Raises AddressError that names what is wrong and shows a correct example."""
    if len(text) > MAX_LENGTH:
        raise AddressError(f"The address is {len(text)} characters long; the limit is {MAX_LENGTH}.", EXAMPLE)
    reader = _Reader(text)
    if not reader.tokens:
        raise AddressError("The address is empty.", EXAMPLE)
    is_calc = reader.peek(1) == "(" and bool(reader.taken("calc"))
    found = Calc(reader.bracketed(reader.sum)) if is_calc else reader.address()
    if reader.peek():
        raise reader.fault(f"“{reader.peek()}” is left over")
    return found
