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
NAMED: tuple[Named, ...] = ()


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
