"""A race: two ways of doing the same, timed in turn for several rounds; what counts is the median of the ratios.

The two run one after the other within each round, the first of them alternating, so that whatever else the machine
does slows both.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Race:
    """`ours` against `theirs`: the ratio of times should be at most `limit`. `parts`: how many things a call makes."""

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    limit: float
    against: str
    unit: str = "ms"
    parts: int = 1
    most_rounds: int = 9  # for races that take long


@dataclass(frozen=True)
class Result:
    """Medians over the rounds; times in milliseconds for one part."""

    race: Race
    ours: float
    theirs: float
    ratio: float
    lowest: float
    highest: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.race.limit


def run(race: Race, rounds: int) -> Result:
    """Time both once unseen, then `rounds` times."""
    race.ours(), race.theirs()
    times = [_round(race, ours_first=n % 2 == 0) for n in range(rounds)]
    ratios = [ours / theirs for ours, theirs in times]
    per_part = 1000 / race.parts
    return Result(
        race=race,
        ours=median(ours for ours, _ in times) * per_part,
        theirs=median(theirs for _, theirs in times) * per_part,
        ratio=median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
    )


def _round(race: Race, ours_first: bool) -> tuple[float, float]:
    if ours_first:
        ours = seconds(race.ours)
        return ours, seconds(race.theirs)
    theirs = seconds(race.theirs)
    return seconds(race.ours), theirs


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call. Garbage of the one before is collected first; what it returns is freed afterwards."""
    gc.collect()
    started = time.perf_counter()
    result = call()
    elapsed = time.perf_counter() - started
    del result
    return elapsed
