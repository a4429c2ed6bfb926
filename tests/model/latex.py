r"""A small calculator for the LaTeX of formulas: `\frac{1}{16} \sum_{i=0}^{15} x_{3,i}` with numbers put in.

A quantity is an array whose axes are named by letters, as in an einsum. Where a formula writes all indices (`x_{3,i}`)
they pick from it; where it leaves them out (`\frac{\partial L}{\partial y}\,w`) the letters say what meets what.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Named:
    """Numbers with a letter for each axis."""

    data: Any
    letters: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", np.asarray(self.data))

    def lined_up(self, letters: str) -> Any:
        """The numbers with axes in the order of `letters`, of length 1 where this has no such axis."""
        own = [letter for letter in letters if letter in self.letters]
        data = np.transpose(self.data, [self.letters.index(letter) for letter in own])
        return data.reshape([data.shape[own.index(x)] if x in own else 1 for x in letters])

    def summed(self, letters: str) -> Named:
        """Added up over these letters; over one that it does not have is a fault of the formula."""
        missing = set(letters) - set(self.letters)
        if missing:
            raise ValueError(f"a sum over {missing} of what has only {self.letters!r}")
        axes = tuple(self.letters.index(letter) for letter in letters)
        return Named(np.sum(self.data, axis=axes), "".join(x for x in self.letters if x not in letters))


Env = dict[str, Any]  # name -> Named, a number, or a function; `∂name` the loss's slope along it


def together(f: Callable[[Any, Any], Any], a: Named, b: Named) -> Named:
    letters = "".join(dict.fromkeys(a.letters + b.letters))
    return Named(f(a.lined_up(letters), b.lined_up(letters)), letters)


def sides(latex: str, env: Env) -> list[Named]:
    r"""What stands on each side of the formula's = signs; a remark behind `\quad` is left out."""
    return [value(side, env) for side in latex.split(r" \quad")[0].split(" = ")]


def value(latex: str, env: Env) -> Named:
    """The value of one expression. Raises ValueError or KeyError where it cannot be read."""
    reader = Reader(latex, env)
    found = reader.expression()
    if reader.peek():
        raise ValueError(f"{latex!r}: {reader.peek()!r} is left over")
    return found


TOKEN = re.compile(r"\\[A-Za-z]+|\\[,! ]|\d+(?:\.\d+)?|[^\s]")
SKIPPED = {r"\,", r"\ ", r"\!", r"\left", r"\right"}
GREEK = {r"\mu", r"\sigma", r"\theta", r"\varepsilon", r"\eta", r"\lambda", r"\beta", r"\pi", r"\infty"}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    r"\log": np.log,
    r"\tanh": np.tanh,
    r"\arccos": np.arccos,
}
CLOSING = {"(": ")", "[": "]", "{": "}"}


def tokens_of(latex: str) -> list[str]:
    return [token for token in TOKEN.findall(latex) if token not in SKIPPED]


class Reader:
    """Recursive descent over the signs of one expression."""

    def __init__(self, latex: str, env: Env, bounds: dict[str, range] | None = None) -> None:
        self.latex, self.env, self.bounds = latex, env, bounds or {}
        self.tokens, self.at = tokens_of(latex), 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, want: str = "") -> str:
        got = self.peek()
        if not got or (want and got != want):
            raise ValueError(f"{self.latex!r}: {want or 'more'} was expected at {got!r}")
        self.at += 1
        return got

    def group(self) -> list[str]:
        """The tokens of `{…}`, or the one token that stands without braces."""
        if self.peek() != "{":
            return [self.take()]
        return self.inside("{")

    def inside(self, opening: str) -> list[str]:
        self.take(opening)
        found, depth = [], 1
        while depth:
            token = self.take()
            depth += (token == opening) - (token == CLOSING[opening])
            found.append(token)
        return found[:-1]

    def part(self, tokens: list[str]) -> Named:
        """The value of some of the tokens, read in the same surroundings."""
        inner = Reader("", self.env, self.bounds)
        inner.latex, inner.tokens = self.latex, tokens
        found = inner.expression()
        if inner.peek():
            raise ValueError(f"{self.latex!r}: {inner.peek()!r} is left over in {' '.join(tokens)}")
        return found

    # -- arithmetic

    def expression(self) -> Named:
        total = self.signed()
        while self.peek() in ("+", "-", ">"):
            sign = self.take()
            f = {"+": np.add, "-": np.subtract, ">": np.greater}[sign]
            total = together(f, total, self.product())
        return total

    def signed(self) -> Named:
        if self.peek() == "-":
            self.take()
            return together(np.multiply, Named(-1.0), self.product())
        return self.product()

    def product(self) -> Named:
        found = self.factor()
        while self.peek() and self.peek() not in ("+", "-", ">", ")", "]", "}", ",", "="):
            if self.peek() == "/":
                self.take()
                found = together(np.divide, found, self.factor())
            elif self.peek() == r"\cdot":
                self.take()
                found = self.dot(found, self.factor())
            else:
                found = together(np.multiply, found, self.factor())
        return found

    def dot(self, a: Named, b: Named) -> Named:
        common = "".join(x for x in a.letters if x in b.letters)
        return together(np.multiply, a, b).summed(common)

    def factor(self) -> Named:
        base = self.base()
        if self.peek() == "^":
            self.take()
            return together(np.power, base, self.part(self.group()))
        return base

    def base(self) -> Named:
        token = self.peek()
        if token == r"\sum":
            return self.sum()
        if token in (r"\frac", r"\tfrac"):
            return self.fraction()
        if token == r"\sqrt":
            self.take()
            inner = self.part(self.group())
            return Named(np.sqrt(inner.data), inner.letters)
        if token in FUNCTIONS:
            self.take()
            inner = self.factor()
            return Named(FUNCTIONS[token](inner.data), inner.letters)
        if token == r"\max":
            return self.max()
        if token in ("(", "["):
            return self.part(self.inside(token))
        if token[0].isdigit():
            return Named(float(self.take()))
        return self.symbol()

    def sum(self) -> Named:
        self.take(r"\sum")
        self.take("_")
        letters, first, condition = self.running(self.group())
        bounds = dict(self.bounds)
        if first is not None:
            self.take("^")
            bounds[letters] = range(first, int(self.part(self.group()).data) + 1)
        outer, self.bounds = self.bounds, bounds
        terms = self.product()
        self.bounds = outer
        if condition:
            terms = together(np.multiply, terms, self.env["where " + condition])
        return terms.summed(letters)

    def running(self, tokens: list[str]) -> tuple[str, int | None, str]:
        r"""`h,c`, `i=0` or `t\,:\,…` as letters, where they begin, and under which condition."""
        if ":" in tokens:
            at = tokens.index(":")
            return "".join(tokens[:at]), None, "".join(tokens[at + 1 :])
        if "=" in tokens:
            return tokens[0], int(tokens[2]), ""
        return "".join(token for token in tokens if token != ","), None, ""

    def fraction(self) -> Named:
        self.take()
        top, bottom = self.group(), self.group()
        if top == [r"\partial", "L"]:
            return self.slope(bottom)
        return together(np.divide, self.part(top), self.part(bottom))

    def slope(self, bottom: list[str]) -> Named:
        r"""`\frac{\partial L}{\partial x_i}`, with `\Big|_j` behind it at step j."""
        if bottom[0] != r"\partial":
            raise ValueError(f"{self.latex!r}: a slope along {bottom}")
        along = [token for token in bottom[1:] if token not in "()"]
        if r"\cdot" in along:
            at = along.index(r"\cdot")
            return self.env["∂" + along[0] + "·" + along[at + 1]]  # type: ignore[no-any-return]
        prefix = "∂"
        if along[0] == r"\log":
            prefix, along = "∂log ", along[1:]
        inner = Reader("", self.env, self.bounds)
        inner.latex, inner.tokens = self.latex, along
        name, index = inner.name()
        if self.peek() == r"\Big":
            self.tokens[self.at : self.at + 2] = []
            self.take("_")
            index = [self.group()]
        return inner.picked(prefix + name, index)

    def max(self) -> Named:
        self.take(r"\max")
        if self.peek() == "_":
            self.take()
            letter = "".join(self.group())
            over = self.product()
            axis = over.letters.index(letter)
            return Named(np.max(over.data, axis=axis), over.letters.replace(letter, ""))
        if self.peek() == "(":
            inside = self.inside("(")
            at = inside.index(",")
            return together(np.maximum, self.part(inside[:at]), self.part(inside[at + 1 :]))
        return self.env["max"]  # type: ignore[no-any-return]

    # -- symbols

    def symbol(self) -> Named:
        if self.peek() == "e" and self.tokens[self.at + 1 : self.at + 2] == ["^"]:
            self.at += 2
            power = self.part(self.group())
            return Named(np.exp(power.data), power.letters)
        name, index = self.name()
        known = self.env.get(name)
        if callable(known):
            inner = self.part(self.inside("("))
            return Named(known(inner.data), inner.letters)
        return self.picked(name, index)

    def name(self) -> tuple[str, list[list[str]]]:
        r"""A symbol and its indices: `W^{Q}_{1,i}` as W_Q and [1], [i]; `\hat{x}_i` as hat x and [i]."""
        token = self.take()
        if token in (r"\mathrm", r"\hat"):
            name = ("hat " if token == r"\hat" else "") + "".join(self.group())
        elif token in GREEK or token.isalpha():
            name = token.removeprefix("\\")
        else:
            raise ValueError(f"{self.latex!r}: {token!r} cannot be read")
        while self.peek() == "'":
            name += self.take()
        if name in ("sigma", "W", "b") and self.peek() == "^":
            self.take()
            name += "_" + self.spelled(self.group())
        index = list(self.indices()) if self.peek() == "_" else []
        if name in ("W", "b", "beta") and index and (name == "beta" or self.spelled(index[0])[0].isalpha()):
            name, index = name + "_" + self.spelled(index[0]), index[1:]
        return name, index

    def spelled(self, tokens: list[str]) -> str:
        return "".join(token for token in tokens if token not in ("{", "}", r"\mathrm"))

    def indices(self) -> Iterator[list[str]]:
        self.take("_")
        found: list[str] = []
        depth = 0
        for token in self.group():
            depth += (token == "{") - (token == "}")
            if token == "," and not depth:
                yield found
                found = []
            else:
                found.append(token)
        yield found

    def picked(self, name: str, index: list[list[str]]) -> Named:
        """The quantity at these indices. A letter renames an axis: the last, unless the quantity has that letter."""
        if name not in self.env:
            raise KeyError(f"{self.latex!r} names {name!r}, which is not among {sorted(self.env)}")
        whole = self.env[name] if isinstance(self.env[name], Named) else Named(np.asarray(self.env[name]))
        if len(index) < len(whole.letters) and all(self.is_letter(i) for i in index):
            return self.renamed(whole, ["".join(i) for i in index])
        if len(index) > len(whole.letters):
            raise ValueError(f"{self.latex!r}: {name} has {len(whole.letters)} axes, not {len(index)}")
        data, letters = whole.data, ""
        for i in index:  # each takes the first axis left, or puts it last under its letter
            if self.is_letter(i):
                letter = "".join(i)
                places = self.bounds.get(letter)
                data = np.moveaxis(data if places is None else data[places.start : places.stop], 0, -1)
                if places is not None and data.shape[-1] != len(places):
                    raise ValueError(f"{self.latex!r}: {letter} runs over {places} in {name}")
                letters += letter
            else:
                data = data[int(self.part(i).data)]
        left = whole.letters[len(index) :]
        return Named(data, left + letters)

    def is_letter(self, index: list[str]) -> bool:
        return len(index) == 1 and index[0].isalpha()

    def renamed(self, whole: Named, letters: list[str]) -> Named:
        new = [letter for letter in letters if letter not in whole.letters]
        return Named(whole.data, whole.letters[: len(whole.letters) - len(new)] + "".join(new))


def number(latex: str, env: Env | None = None) -> float:
    """The value of an expression that is one number: a constant's name."""
    found = value(latex, {"infty": math.inf, "pi": math.pi} | (env or {}))
    if found.letters:
        raise ValueError(f"{latex!r} is more than one number")
    return float(found.data)
