"""Sums: every matrix multiply of the network, one class, and what the residual stream adds up.

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
from model.ops.base import Column, Constant, Group, Ints, Place, Ref, Rule, along, every, grad, grid, subscript
from model.ops.op import Op
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
    "g": "kv_head",
}

# A letter -> the one that shares its places out: several heads read the keys and values of one kv_head.
SHARED_BY = {"g": "h"}

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

    is_mean   the sum is divided by the number of its terms
    subtotal  a view that keeps the terms apart along the first summed letter: see `PartialSums`
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
        is_mean: bool = False,
    ) -> None:
        self.name, self.out, self.letters, self.factors = name, out, letters, factors
        self.symbol, self.says, self.bias, self.subtotal, self.is_mean = symbol, says, bias, subtotal, is_mean
        self.reads = tuple(dict.fromkeys(o.site for o in (*factors, bias) if o is not None))
        read = dict.fromkeys("".join(f.letters for f in factors))
        self.shared = {g: x for g, x in SHARED_BY.items() if g in read and x in read}
        self.summed = "".join(x for x in read if x not in letters and x not in self.shared)

    @property
    def picture(self) -> str:
        """Of a sum over the text's tokens what each of them contributes, of one with subtotals those."""
        return "tokens" if {"q", "k", "t"} & set(self.summed) else "parts" if self.subtotal else ""

    def derive(self, run: Values) -> Tensor:
        spec = ",".join(f.letters for f in self.factors) + "->" + self.letters
        total = torch.einsum(spec, *(run.tensor(f.site) for f in self.factors))
        return total + run.tensor(self.bias.site) if self.bias else total

    def forward(self, run: Values, at: Place) -> Rule:
        fixed: dict[str, int] = dict(zip(self.letters, at, strict=True))
        n, places, where = self._places(run, fixed, self.summed)
        factors = tuple(Ref(f.site, tuple(where[letter] for letter in f.letters)) for f in self.factors)
        main = Group(
            factors=factors + self._share(run),
            n=n,
            axes=axes_of(self.summed),
            places=places,
            subtotal=self._subtotals(fixed),
        )
        if self.bias is None:
            return Rule("sum", (main,))
        bias = Ref(self.bias.site, tuple(fixed[letter] for letter in self.bias.letters))
        return Rule("sum", (main, Group((bias,), label="bias")))

    def _places(
        self, run: Values, fixed: dict[str, int], free: str
    ) -> tuple[int, tuple[Ints, ...], dict[str, int | Ints]]:
        """How many terms there are over the free letters, their places, and every letter's place in each term."""
        shared = {x: g for g, x in self.shared.items() if x in free and g in fixed}
        sizes = [self._sharing(run, shared[x], x) if x in shared else run.size(AXES[x]) for x in free]
        places = tuple(
            place + fixed[shared[x]] * size if x in shared else place
            for x, size, place in zip(free, sizes, grid(sizes), strict=True)
        )
        where: dict[str, int | Ints] = fixed | dict(zip(free, places, strict=True))
        for g, x in self.shared.items():
            if g not in where:
                where[g] = where[x] // self._sharing(run, g, x)
        return prod(sizes), places, where

    @staticmethod
    def _sharing(run: Values, g: str, x: str) -> int:
        """How many places of axis x read one place of the axis g that they share."""
        return run.size(AXES[x]) // run.size(AXES[g])

    def _share(self, run: Values) -> tuple[Constant, ...]:
        """1/n, where the mean of n terms is taken."""
        n = prod(run.size(AXES[letter]) for letter in self.summed)
        return (Constant(rf"\tfrac{{1}}{{{n}}}", 1 / n),) if self.is_mean else ()

    def _subtotals(self, fixed: dict[str, int]):  # type: ignore[no-untyped-def]
        part = self.subtotal
        if part is None:
            return None
        return lambda n: str(Address(part.site, tuple((fixed | {self.summed[0]: n})[x] for x in part.letters)))

    # -- backward: a site may stand in the sum once, or twice (x·x)

    def _uses(self, source: str) -> list[tuple[Operand, tuple[Operand, ...], int]]:
        """What `source` is to this sum: an operand, what it is multiplied with, and how often it stands there so."""
        first, second = self.factors
        if first == second and first.site == source:
            return [(first, (second,), 2)]
        uses: list[tuple[Operand, tuple[Operand, ...], int]] = []
        uses += [(f, (other,), 1) for f, other in ((first, second), (second, first)) if f.site == source]
        return uses + ([(self.bias, (), 1)] if self.bias and self.bias.site == source else [])

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        groups = []
        for operand, others, times in self._uses(source):
            fixed: dict[str, int] = dict(zip(operand.letters, at, strict=True))
            free = self._free(operand, others)
            n, places, where = self._places(run, fixed, free)
            columns: list[Column] = [grad(self.out, tuple(where[letter] for letter in self.letters))]
            columns += [Constant(str(times), times)] if times > 1 else []
            columns += [Ref(o.site, tuple(where[letter] for letter in o.letters)) for o in others]
            columns += self._share(run) if others else ()
            groups.append(Group(tuple(columns), n, axes=axes_of(free), places=places))
        return tuple(groups)

    def _free(self, operand: Operand, others: tuple[Operand, ...]) -> str:
        """The letters that the slope along an operand is summed over."""
        read = dict.fromkeys(self.letters + "".join(o.letters for o in others))
        return "".join(x for x in read if x not in operand.letters and x not in self.shared)

    def slope(self, source: str) -> str:
        found = []
        for operand, others, times in self._uses(source):
            free = self._free(operand, others)
            sums = rf"\sum_{{{','.join(free)}}} " if free else ""
            times_over = rf"\,\frac{{{times}}}{{n}}" if self.is_mean else rf"\,{times}" if times > 1 else ""
            found.append(sums + along(self.bare_symbol) + times_over + "".join(rf"\,{o.symbol}" for o in others))
        return " + ".join(found)

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        parts = [self._gradient(run, index, *use) for use in self._uses(source)]
        share = prod((constant.value for constant in self._share(run)), start=1.0)
        return sum(parts[1:], parts[0]) * share if self.is_mean else sum(parts[1:], parts[0])

    def _gradient(
        self, run: Values, index: tuple[Index, ...], operand: Operand, others: tuple[Operand, ...], times: int
    ) -> Tensor:
        chosen = dict(zip(operand.letters, index, strict=True))
        terms = [(run.gradient(self.out), self.letters)]
        terms += [(run.tensor(o.site), o.letters) for o in others]
        picked = [t[tuple(chosen.get(letter, every()) for letter in letters)] for t, letters in terms]
        kept = ["".join(x for x in letters if not isinstance(chosen.get(x), int)) for _, letters in terms]
        wanted = "".join(x for x in operand.letters if not isinstance(chosen[x], int))
        if prod(run.shape(operand.site)) <= EXACT or len(wanted) < len(operand.letters):
            picked = [t.double() for t in picked]
        total = torch.einsum(",".join(kept) + "->" + wanted, *picked)
        return total * times if times > 1 else total

    @property
    def bare_symbol(self) -> str:
        """The left side's symbol without its indices."""
        return re.sub(r"_\{\{\{.*?\}\}\}", "", self.symbol).replace("{{", "{").replace("}}", "}")

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        found: list[tuple[Index, ...]] = []
        for operand, _, _ in self._uses(source):
            fixed: dict[str, Index] = dict(zip(operand.letters, at, strict=True))
            for g, x in self.shared.items():
                if g in fixed:
                    n = self._sharing(run, g, x)
                    fixed[x] = slice(at[operand.letters.index(g)] * n, (at[operand.letters.index(g)] + 1) * n)
            found.append(tuple(fixed.get(letter, every()) for letter in self.letters))
        return found

    def formula(self, run: Values, at: Place) -> str:
        fixed: dict[str, int | str] = dict(zip(self.letters, at, strict=True))
        where = fixed | {letter: letter for letter in self.summed}
        where |= {g: int(where[x]) // self._sharing(run, g, x) for g, x in self.shared.items()}
        left = self.symbol.format(**where) if "{" in self.symbol else subscript(self.symbol, at)
        share = rf"\frac{{1}}{{{prod(run.size(AXES[x]) for x in self.summed)}}} " if self.is_mean else ""
        sums = "".join(rf"\sum_{{{x}=0}}^{{{run.size(AXES[x]) - 1}}} " for x in self.summed)
        first, second = self.factors
        product = f"{first.place(where)}^2" if first == second else rf"{first.place(where)}\,{second.place(where)}"
        return f"{left} = {share}{sums}{product}" + (f" + {self.bias.place(fixed)}" if self.bias else "")

    def plain(self, run: Values, at: Place) -> str:
        words = dict(zip(self.letters, map(str, at), strict=True))
        sizes = {f"n_{letter}": f"{run.size(AXES[letter]):,}" for letter in AXES}
        tokens = {f"token_{letter}": f"{{t{words[letter]}}}" for letter in self.letters if letter in "tqk"}
        entry = {"entry": f"{{v{words['v']}}}"} if "v" in self.letters else {}
        return self.says.format(**words, **sizes, **tokens, **entry)


class Add(Op):
    """out[t,m] = Σ of the same place in each part. With one part it is the same number under its next name."""

    name = "add"

    def __init__(self, out: str, symbol: str, parts: dict[str, str], says: str) -> None:
        """`parts` maps each site read to its LaTeX symbol."""
        self.out, self.symbol, self.parts, self.says = out, symbol, parts, says
        self.reads, self.backward_latex = tuple(parts), along(symbol)

    def formula(self, run: Values, at: Place) -> str:
        right = " + ".join(subscript(symbol, at) for symbol in self.parts.values())
        return f"{subscript(self.symbol, at)} = {right}"

    def forward(self, run: Values, at: Place) -> Rule:
        return Rule("sum", tuple(Group((Ref(site, at),), label=site.rsplit(".", 1)[-1]) for site in self.parts))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        return (Group((grad(self.out, at),)),)


class View(Op):
    """Another reading of numbers that the network has: derived on demand, never captured or set, read by no other op.

    The loss moves along each number of a view as it does along one number of `whole`, so a view hands its slope to
    nothing, and its backward rule says what its own slope is. `letters` are the view's axes.
    """

    passes_on = ()
    letters: str
    whole: Operand

    def in_whole(self, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """The place of `whole` that belongs to a place of the view; slices as they are."""
        chosen = dict(zip(self.letters, index, strict=True))
        return tuple(chosen[letter] for letter in self.whole.letters)

    def behind(self, address: Address) -> Address:
        """The same quantity of `whole`, at the place that belongs to an address of the view."""
        return Address(self.whole.site, self.in_whole(address.index) if address.index else (), address.quantity)

    def spread(self, run: Values, part: Tensor, index: tuple[Index, ...]) -> Tensor:
        """A part of `whole`, at `in_whole(index)`, as the view's axes have it: repeated along those that it lacks."""
        chosen = dict(zip(self.letters, index, strict=True))
        wanted = [x for x in self.letters if isinstance(chosen[x], slice)]
        has = [x for x in self.whole.letters if x in wanted]
        part = part.permute([has.index(x) for x in wanted if x in has])
        for axis, letter in enumerate(wanted):
            if letter not in has:
                size = len(range(*chosen[letter].indices(run.size(AXES[letter]))))  # type: ignore[union-attr]
                part = part.unsqueeze(axis).expand(*part.shape[:axis], size, *part.shape[axis:])
        return part

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        return (Group((grad(self.whole.site, self.in_whole(at)),)),)  # type: ignore[arg-type]

    def slope(self, source: str) -> str:
        return along(self.whole.symbol)

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        return self.spread(run, run.gradient_at(self.whole.site, self.in_whole(index)), index)


class PartialSums(View, SumProduct):
    """The terms of a sum, `whole`, kept apart along one of its axes, as a site of its own."""

    def __init__(
        self,
        name: str,
        out: str,
        letters: str,
        factors: tuple[Operand, Operand],
        whole: Operand,
        *,
        symbol: str,
        says: str,
    ) -> None:
        SumProduct.__init__(self, name, out, letters, factors, symbol=symbol, says=says)
        self.whole = whole
