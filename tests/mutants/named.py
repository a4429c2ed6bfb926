"""Mutants made by hand: faults of kinds that operators do not think of, and those that once went unnoticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutants.sources import Mutant, spots
from tests.mutants.targets import TARGETS


@dataclass(frozen=True)
class Named:
    """In the function `where`, the first expression that reads like `old` becomes `new`."""

    kind: str
    where: str
    old: str
    new: str


MISSED_ONCE = (
    Named(
        "only the first",
        "Lookup.backward",
        "np.flatnonzero(np.array(run.tokens) == row)",
        "np.flatnonzero(np.array(run.tokens) == row)[:1]",
    ),
    Named("sign", "Variance.backward", "-2 / d", "2 / d"),
    Named("LaTeX", "Variance.slope", r"r'\,\frac{2}{d}(x - \mu)'", r"r'\,\frac{1}{d}(x - \mu)'"),
)
# Terms that add up as before though each is wrong, places that differ from the addresses, words of another place.
NAMED: tuple[Named, ...] = (
    Named(
        "right total",
        "Gelu.backward",
        "Computed(f'calc({opened})', gate(u))",
        "Computed(f'calc(2*{opened})', 2 * gate(u))",
    ),
    Named(
        "right total",
        "Weights.backward",
        "Group((scale, grad(self.out, at)), label='its own slope')",
        "Group((grad(self.out, at), MINUS, scale), label='its own slope')",
    ),
    Named("right total", "Mean.forward", "fraction(1, d)", "Constant(fraction(1, d + 1).name, 1 / d)"),
    Named("right total", "fraction", r"rf'\tfrac{{{top}}}{{{bottom}}}'", r"rf'\tfrac{{{top}}}{{{bottom + 1}}}'"),
    Named("right total", "Scale.backward", "Constant(r'\\tfrac{1}{2}', 0.5)", "Constant('2', 0.5)"),
    Named("right total", "Normalize.backward", "grad(self.out, (t, i))", "grad(self.out, (t, i[::-1]))"),
    Named("right total", "Variance.forward", "Ref(self.x, (at[0], i))", "Ref(self.x, (at[0], i[::-1]))"),
    Named("right total", "Probabilities.backward", "Ref('probs', at)", "Ref('probs', (t, u))"),
    Named(
        "right total",
        "PositionRow.forward",
        "Constant(r'\\mathrm{position}', at[0])",
        "Constant(r'\\mathrm{position}', at[1])",
    ),
    Named("wrong place", "Lookup.readers", "[(at[0], every())]", "[(at[0], 0)]"),
    Named("wrong place", "SumProduct._subtotals", "self.summed[0]", "self.summed[-1]"),
    Named("wrong place", "Affine.readers", "[at]", "[(at[0], every())]"),
    Named("wrong place", "TokenLoss.readers", "[(at[0] - 1,)]", "[(at[0],)]"),
    Named("wrong place", "Weights.backward", "grad(self.out, (h, q, j))", "grad(self.out, (h, j, q))"),
    Named("wrong place", "MaskedScale.readers", "at[2] <= at[1]", "at[2] < at[1]"),
    Named("wrong place", "LogProbabilities.readers", "[(at[0], every())]", "[at]"),
    Named("wrong place", "Exponential._largest", "np.arange(at[1] + 1)", "np.arange(at[1])"),
    Named(
        "dropped factor",
        "SumProduct.slope",
        "(rf'\\,{o.symbol}' for o in others)",
        "(rf'\\,{o.symbol}' for o in others[1:])",
    ),
    Named("LaTeX", "MaskedScale.formula", "run.size('d_head')", "run.size('d_model')"),
    Named("LaTeX", "SumProduct.formula", "run.size(AXES[x]) - 1", "run.size(AXES[x])"),
    Named("LaTeX", "Weights.formula", "q", "k"),
    Named(
        "LaTeX",
        "step_formula",
        "rf'\\theta_{{{k}}} = \\theta_0 - {total} \\quad (\\theta = {symbol})'",
        "rf'\\theta_{{{k}}} = \\theta_{{{k - 1}}} - {total} \\quad (\\theta = {symbol})'",
    ),
    Named("LaTeX", "moment_rule", "rf'(1-{beta}){beta}^{{{k - 1 - j}}}'", "rf'(1-{beta}){beta}^{{{k - j}}}'"),
    Named("words", "TokenLoss.plain", "t == run.n_pos - 1", "t == run.n_pos - 2"),
    Named("words", "MaskedScale.plain", "f'{{t{k}}} comes after {{t{q}}}'", "f'{{t{q}}} comes after {{t{k}}}'"),
    Named("words", "Lookup.plain", "run.tokens[t]", "run.tokens[0]"),
    Named("words", "SumProduct.plain", "letter in 'tqk'", "letter in 'tq'"),
    Named("words", "Exponential.plain", "self._largest(run, at)", "at[2]"),
    Named(
        "swapped label",
        "Normalize.forward",
        "(Group((deviation,), label='x − mean'), Group((Ref(f'{self.ln}.scale', at[:1]),), label='scale'))",
        "(Group((deviation,), label='scale'), Group((Ref(f'{self.ln}.scale', at[:1]),), label='x − mean'))",
    ),
    Named("swapped label", "step_rule", "f'step {j + 1}'", "f'step {j}'"),
    Named("swapped label", "Add.forward", "site.rsplit('.', 1)[-1]", "site.split('.', 1)[-1]"),
    Named(
        "sign",
        "LayerNorm.backward",
        "-normalized.sum(-1) * over[:, 0] - 2 / d * var * centred.sum(-1)",
        "-normalized.sum(-1) * over[:, 0] + 2 / d * var * centred.sum(-1)",
    ),
    Named("only the first", "Lookup.gradient", "slopes[tokens == row].sum(0)", "slopes[tokens == row][0]"),
    Named("only the first", "slopes_at_the_end", "1 / len(run.scored)", "1 / len(scored)"),
)


class Stale(LookupError):
    """A mutant by hand whose place is gone."""


def named_mutants(named: tuple[Named, ...]) -> Iterator[Mutant]:
    trees = {target.path: ast.parse(target.path.read_text("utf-8")) for target in TARGETS}
    for one in named:
        yield found(one, trees)


def found(one: Named, trees: dict) -> Mutant:  # type: ignore[type-arg]
    old, new = (ast.parse(text, mode="eval").body for text in (one.old, one.new))
    for path, tree in trees.items():
        for spot in spots(tree):
            if spot.qualified == one.where and ast.dump(spot.node) == ast.dump(old):
                return Mutant(path, one.where, "named, " + one.kind, one.old, one.new, 0, tree, spot.node, new)
    raise Stale(f"{one.where} does not hold “{one.old}” any more: renew this entry of tests/mutants/named.py")
