"""Sums of products: every matrix multiply of the network, one class.

Linear layers, the query·key dot product, the attention-weighted average of values, a head's share of the output and
the unembedding are all Σ over some axes of one number times another, plus a bias. Each axis is a letter, as in an
einsum: `q[t,h,c] = Σ_i x[t,i]·W_Q[h,i,c] + b_Q[h,c]` is out="thc", factors x:"ti" and W_Q:"hic", bias "hc".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from model.address import Address, Index
from model.ops.base import Group, Op, Place, Ref, Rule, every, grid, subscript

if TYPE_CHECKING:
    from model.run import Run

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
        read = dict.fromkeys("".join(f.letters for f in factors))
        self.summed = "".join(letter for letter in read if letter not in letters)

    def derive(self, run: Run) -> Tensor:
        spec = ",".join(f.letters for f in self.factors) + "->" + self.letters
        total = torch.einsum(spec, *(run.tensor(f.site) for f in self.factors))
        return total + run.tensor(self.bias.site) if self.bias else total

    def forward(self, run: Run, at: Place) -> Rule:
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

    def readers(self, run: Run, source: str, at: Place) -> list[tuple[Index, ...]]:
        found = []
        for operand in (*self.factors, *([self.bias] if self.bias else [])):
            if operand.site == source:
                fixed = dict(zip(operand.letters, at, strict=True))
                found.append(tuple(fixed.get(letter, every()) for letter in self.letters))
        return found

    def formula(self, run: Run, at: Place) -> str:
        fixed: dict[str, int | str] = dict(zip(self.letters, at, strict=True))
        where = fixed | {letter: letter for letter in self.summed}
        left = self.symbol.format(**where) if "{" in self.symbol else subscript(self.symbol, at)
        sums = "".join(rf"\sum_{{{x}=0}}^{{{run.size(AXES[x]) - 1}}} " for x in self.summed)
        right = sums + r"\,".join(f.place(where) for f in self.factors)
        return f"{left} = {right}" + (f" + {self.bias.place(fixed)}" if self.bias else "")

    def plain(self, run: Run, at: Place) -> str:
        words = dict(zip(self.letters, map(str, at), strict=True))
        sizes = {f"n_{letter}": f"{run.size(AXES[letter]):,}" for letter in AXES}
        tokens = {f"token_{letter}": f"{{t{words[letter]}}}" for letter in self.letters if letter in "tqk"}
        entry = {"entry": f"{{v{words['v']}}}"} if "v" in self.letters else {}
        return self.says.format(**words, **sizes, **tokens, **entry)
