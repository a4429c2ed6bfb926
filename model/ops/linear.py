"""Sums of products: every matrix multiply of the network, one class.

Linear layers, the query·key dot product, the attention-weighted average of values, a head's share of the output and
the unembedding are all Σ over some axes of one number times another, plus a bias. Each axis is a letter, as in an
einsum: `q[t,h,c] = Σ_i x[t,i]·W_Q[h,i,c] + b_Q[h,c]` is out="thc", factors x:"ti" and W_Q:"hic", bias "hc".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from model.address.trees import Address, Index
from model.ops.base import Group, Place, Ref, Rule, along, every, grad, grid, subscript
from model.ops.op import Op, View
from model.ops.values import Values

# Letter -> the axis it runs over. Two letters for one kind of axis where an op needs both (input i, output m).
AXES = {
    "t": "pos",
    "q": "query",
    "k": "key",
    "h": "head",
    "c": "d_head",
    "i": "d_model",
    "m": "d_model",
    "n": "d_mlp",
    "v": "d_vocab",
}


# A whole gradient of more numbers than this is summed in float32: it would take too long in float64.
EXACT = 2**19


def axes_of(letters: str) -> tuple[str, ...]:
    """Axis names of a string of letters."""
    return tuple(AXES[letter] for letter in letters)


@dataclass(frozen=True)
class Operand:
    """A tensor read by the sum, its letters in its own axis order, and its symbol in the formula."""

    site: str
    letters: str
    symbol: str

    def place(self, at: dict[str, int | str]) -> str:
        return subscript(self.symbol, [at[letter] for letter in self.letters])


class SumProduct(Op):
    """out[…] = Σ Π factors (+ bias). `symbol` is the left side's LaTeX; `{q}` in it is replaced by that letter's place.

    `subtotal` names a site with one more axis in place of the first summed letter, whose entries are the partial sums.
    Such a site is a view: the network does not read it, but the loss has a slope along each partial sum.
    """

    def __init__(
        self,
        name: str,
        out: str,
        letters: str,
        factors: tuple[Operand, Operand],
        *,
        symbol: str,
        says: str,
        bias: Operand | None = None,
        subtotal: Operand | None = None,
    ) -> None:
        self.name, self.out, self.letters, self.factors = name, out, letters, factors
        self.symbol, self.says, self.bias, self.subtotal = symbol, says, bias, subtotal
        self.reads = tuple(f.site for f in factors) + ((bias.site,) if bias else ())
        if subtotal:
            self.passes_on = (*self.reads, subtotal.site)
        self.operands = [o for o in (*factors, bias, subtotal) if o is not None]
        read = dict.fromkeys("".join(f.letters for f in factors))
        self.summed = "".join(letter for letter in read if letter not in letters)

    def derive(self, run: Values) -> Tensor:
        spec = ",".join(f.letters for f in self.factors) + "->" + self.letters
        total = torch.einsum(spec, *(run.tensor(f.site) for f in self.factors))
        return total + run.tensor(self.bias.site) if self.bias else total

    def forward(self, run: Values, at: Place) -> Rule:
        fixed: dict[str, int] = dict(zip(self.letters, at, strict=True))
        places = grid([run.size(AXES[letter]) for letter in self.summed])
        where = fixed | dict(zip(self.summed, places, strict=True))
        main = Group(
            factors=tuple(Ref(f.site, tuple(where[letter] for letter in f.letters)) for f in self.factors),
            n=len(places[0]),
            axes=axes_of(self.summed),
            places=places,
            subtotal=self._subtotals(fixed),
        )
        if self.bias is None:
            return Rule("sum", (main,))
        bias = Ref(self.bias.site, tuple(fixed[letter] for letter in self.bias.letters))
        return Rule("sum", (main, Group((bias,), label="bias")))

    def _subtotals(self, fixed: dict[str, int]):  # type: ignore[no-untyped-def]
        part = self.subtotal
        if part is None:
            return None
        return lambda n: str(Address(part.site, tuple((fixed | {self.summed[0]: n})[x] for x in part.letters)))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        operand = self._operand(source)
        fixed: dict[str, int] = dict(zip(operand.letters, at, strict=True))
        others = self._others(operand)
        free = "".join(dict.fromkeys(x for x in self.letters + "".join(o.letters for o in others) if x not in fixed))
        places = grid([run.size(AXES[letter]) for letter in free])
        where = fixed | dict(zip(free, places, strict=True))
        columns = [grad(self.out, tuple(where[letter] for letter in self.letters))]
        columns += [Ref(o.site, tuple(where[letter] for letter in o.letters)) for o in others]
        n = len(places[0]) if free else 1
        return (Group(tuple(columns), n, axes=axes_of(free), places=places),)

    def slope(self, source: str) -> str:
        operand = self._operand(source)
        others = self._others(operand)
        free = dict.fromkeys(x for x in self.letters + "".join(o.letters for o in others) if x not in operand.letters)
        sums = rf"\sum_{{{','.join(free)}}} " if free else ""
        return sums + along(self.bare_symbol) + "".join(rf"\,{o.symbol}" for o in others)

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        operand = self._operand(source)
        chosen = dict(zip(operand.letters, index, strict=True))
        terms = [(run.gradient(self.out), self.letters)]
        terms += [(run.tensor(o.site), o.letters) for o in self._others(operand)]
        picked = [t[tuple(chosen.get(letter, every()) for letter in letters)] for t, letters in terms]
        kept = ["".join(x for x in letters if not isinstance(chosen.get(x), int)) for _, letters in terms]
        wanted = "".join(x for x in operand.letters if not isinstance(chosen[x], int))
        found = "".join(x for x in wanted if any(x in k for k in kept))
        if prod(run.shape(source)) <= EXACT or len(wanted) < len(operand.letters):
            picked = [t.double() for t in picked]
        total = torch.einsum(",".join(kept) + "->" + found, *picked)
        for axis, letter in enumerate(wanted):  # an axis that no factor has: the view's, along which the slope is one
            if letter not in found:
                size = len(range(*chosen[letter].indices(run.size(AXES[letter]))))  # type: ignore[union-attr]
                total = total.unsqueeze(axis).expand(*total.shape[:axis], size, *total.shape[axis:])
        return total

    def _operand(self, source: str) -> Operand:
        """What `source` is to this sum: a factor, the bias, or the view of its partial sums."""
        return next(operand for operand in self.operands if operand.site == source)

    def _others(self, operand: Operand) -> list[Operand]:
        return [f for f in self.factors if f.site != operand.site] if operand in self.factors else []

    @property
    def bare_symbol(self) -> str:
        """The left side's symbol without its indices."""
        return re.sub(r"_\{\{\{.*?\}\}\}", "", self.symbol).replace("{{", "{").replace("}}", "}")

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        found = []
        for operand in self.operands:
            if operand.site == source:
                fixed = dict(zip(operand.letters, at, strict=True))
                found.append(tuple(fixed.get(letter, every()) for letter in self.letters))
        return found

    def formula(self, run: Values, at: Place) -> str:
        fixed: dict[str, int | str] = dict(zip(self.letters, at, strict=True))
        where = fixed | {letter: letter for letter in self.summed}
        left = self.symbol.format(**where) if "{" in self.symbol else subscript(self.symbol, at)
        sums = "".join(rf"\sum_{{{x}=0}}^{{{run.size(AXES[x]) - 1}}} " for x in self.summed)
        right = sums + r"\,".join(f.place(where) for f in self.factors)
        return f"{left} = {right}" + (f" + {self.bias.place(fixed)}" if self.bias else "")

    def plain(self, run: Values, at: Place) -> str:
        words = dict(zip(self.letters, map(str, at), strict=True))
        sizes = {f"n_{letter}": f"{run.size(AXES[letter]):,}" for letter in AXES}
        tokens = {f"token_{letter}": f"{{t{words[letter]}}}" for letter in self.letters if letter in "tqk"}
        entry = {"entry": f"{{v{words['v']}}}"} if "v" in self.letters else {}
        return self.says.format(**words, **sizes, **tokens, **entry)


class PartialSums(View, SumProduct):
    """The terms of a sum kept apart along one of its axes, as a site of its own."""
