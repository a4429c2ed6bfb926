"""Which of all possible mutants are run: of each file some, spread over the kinds, and always the same ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest

from tests.mutants.harmless import HARMLESS
from tests.mutants.named import MISSED_ONCE, NAMED, named_mutants
from tests.mutants.sources import Mutant, mutants_of
from tests.mutants.targets import TARGETS, Target

SAMPLE = 20


@cache
def drawn() -> tuple[Mutant, ...]:
    """All mutants of `make mutants`, well mixed: the first hundred say much of what the rest will."""
    found = list(named_mutants(MISSED_ONCE + NAMED))
    for target in TARGETS:
        found += drawn_from(target)
    by_key = {mutant.key: mutant for mutant in found if mutant.key not in HARMLESS}
    return tuple(sorted(by_key.values(), key=lambda mutant: mutant.rank))


def drawn_from(target: Target) -> list[Mutant]:
    """Of each kind in turn the one that ranks first, until there are enough."""
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants_of(target.path, target.functions, target.without):
        if not target.kinds or mutant.kind in target.kinds:
            kinds[mutant.kind].append(mutant)
    rounds = zip_longest(*(sorted(kinds[kind], key=lambda m: m.rank) for kind in sorted(kinds)))
    return [mutant for one_of_each in rounds for mutant in one_of_each if mutant is not None][: target.draw]


def sample() -> list[Mutant]:
    """The three that once went unnoticed, and those that rank first of all others."""
    first = list(named_mutants(MISSED_ONCE))
    keys = {mutant.key for mutant in first}
    return first + spread([mutant for mutant in drawn() if mutant.key not in keys], SAMPLE - len(first))


def spread(mutants: Sequence[Mutant], n: int) -> list[Mutant]:
    """The first of each file in turn."""
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.path.name].append(mutant)

    def in_turn() -> Iterator[Mutant]:
        for one_of_each in zip_longest(*(by_file[name] for name in sorted(by_file))):
            yield from (mutant for mutant in one_of_each if mutant is not None)

    return list(in_turn())[:n]
