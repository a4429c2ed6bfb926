"""Sampling: from one row of logits to the next token, with every number on the way kept.

The order is temperature, then top-k, then top-p, then the draw:

1. temperature  p_v = e^((z_v − max)/T) / Σ_u e^((z_u − max)/T), in float64 from the float32 logits z. T = 0 is greedy:
                the largest logit gets 1.
2. top-k        keeps the first k of the ranking by logit; of equal logits the lowest id ranks first.
3. top-p        goes down the ranking and adds up what is left after top-k, rescaled to 1; it stops after the token
                whose probability brings the total to p or over it. That token stays (Holtzman et al. 2020).
4. draw         what is kept, rescaled to 1, is laid end to end in ranking order over [0, 1); the token whose interval
                holds the random number is the choice.
"""

from __future__ import annotations

import hashlib
import math
import operator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from model.errors import FaultyLogits, SettingError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_TEMPERATURE = 5.0
MAX_SEED = 2**53 - 1  # the largest whole number that every JSON reader keeps
ROUNDING = 1e-12  # a running total this close under p has reached it: ten times 0.1 is 0.9999999999999999


@dataclass(frozen=True)
class Sampling:
    """What a reader sets. `top_k` of None or 0 and `top_p` of 1 cut nothing. Raises SettingError for the rest."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, MAX_TEMPERATURE, "0 always takes the likeliest token.")
        check_number("top_p", self.top_p, 1, "Write 0.9 to keep nine tenths of the probability, 1 to cut nothing.")
        if self.top_k is not None:
            check_whole("top_k", self.top_k, None, "Write 40 to keep the 40 likeliest tokens, 0 to cut nothing.")
        check_whole("seed", self.seed, MAX_SEED, "Any number such as 7 does; the same seed gives the same text.")

    @property
    def greedy(self) -> bool:
        """True where only the likeliest token can be chosen, whatever number is drawn."""
        return self.temperature == 0 or self.top_k == 1 or self.top_p == 0


def check_number(name: str, value: Any, most: float, hint: str) -> None:
    """A finite number from 0 to `most`, or SettingError."""
    try:
        fits = not isinstance(value, (bool, str)) and 0 <= float(value) <= most
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise SettingError(name, f"{name} is {value!r}, but must be a number from 0 to {most:g}.", hint)


def check_whole(name: str, value: Any, most: int | None, hint: str) -> None:
    """A whole number from 0 on, up to `most`, or SettingError."""
    try:
        fits = not isinstance(value, bool) and 0 <= operator.index(value) <= (math.inf if most is None else most)
    except TypeError:
        fits = False
    if not fits:
        upto = "of at least 0" if most is None else f"from 0 to {most}"
        raise SettingError(name, f"{name} is {value!r}, but must be a whole number {upto}.", hint)


def uniform(seed: int, position: int) -> float:
    """The random number in [0, 1) for the token at `position` of a text, hashed from "seed:position".

    It is the first 53 bits of BLAKE2b with a digest of 8 bytes, read as a whole number and divided by 2⁵³.

    A hash needs no state: each position's number can be computed alone, so a text that is continued later, on another
    machine, or with one token exchanged meets the same numbers. It is the same in every language and version, which
    no library promises of its random generators.
    """
    digest = hashlib.blake2b(f"{seed}:{position}".encode("ascii"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def ranking(logits: NDArray[np.float32]) -> Ints:
    """Token ids, the largest logit first, of equal logits the lowest id first.

    Sorts one whole number per token, the logit's bits above the id: several times as fast as a stable sort of floats.
    """
    bits = (-logits).view(np.int32).astype(np.int64)
    rising = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # bits of floats as numbers in the floats' own order
    keys = (rising << 32) | np.arange(len(logits), dtype=np.int64)
    keys.sort()
    return keys & 0xFFFFFFFF


def softmax(logits: ArrayLike, temperature: float = 1.0) -> Floats:
    """e^((z − max)/T) / Σ e^((z − max)/T) in float64. The maximum goes first, so that no T > 0 overflows."""
    z = np.asarray(logits, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        raised = np.exp((z - z.max()) / temperature)
    return np.asarray(raised / raised.sum())


def interval_ends(odds: Floats) -> Floats:
    """Where each token's interval ends when `odds` (in ranking order) are laid end to end over [0, 1)."""
    ends = np.cumsum(odds)
    ends[np.flatnonzero(odds)[-1] :] = 1.0  # exactly, so that every number in [0, 1) meets a token that has odds
    return ends


@dataclass(frozen=True, eq=False)
class Choice:
    """One choice laid open: these four fix it, and each number on the way is computed when it is first asked for.

    t             position of the run whose logits these are; the choice is what follows it
    position      place of the chosen token in the whole text: with the seed it gives `drawn`
    logits        one per token id, as the network computed them, float32; all other arrays are float64
    """

    t: int
    position: int
    settings: Sampling
    logits: NDArray[np.float32] = field(repr=False)

    @cached_property
    def order(self) -> Ints:
        """Token ids along the ranking; `rank` counts from 0."""
        return ranking(self.logits)

    @cached_property
    def probs(self) -> Floats:
        """Probabilities before temperature, by token id."""
        return softmax(self.logits)

    # -- temperature

    @cached_property
    def tempered(self) -> Floats:
        """After temperature, by token id; at 0 the largest logit has 1, of equal ones the lowest id."""
        if self.settings.temperature > 0:
            return softmax(self.logits, self.settings.temperature)
        certain = np.zeros(len(self.logits))
        certain[self.logits.argmax()] = 1.0
        return certain

    @cached_property
    def _along(self) -> Floats:
        """`tempered` along the ranking."""
        return self.tempered[self.order]

    # -- top-k

    @property
    def kept_by_k(self) -> int:
        """How many stay after top-k."""
        return min(self.settings.top_k or len(self.logits), len(self.logits))

    @cached_property
    def removed_by_k(self) -> float:
        """The share of `tempered` that top-k took away."""
        return float(self._along[self.kept_by_k :].sum())

    @cached_property
    def after_k(self) -> Floats:
        """After top-k, rescaled to 1, by token id; 0 for what was cut."""
        return self._rescaled(self.kept_by_k)

    @cached_property
    def running(self) -> Floats:
        """Totals of `after_k` along the ranking, down to each token that top-k kept: what top-p looks at."""
        totals = np.cumsum(self._along[: self.kept_by_k])
        return np.asarray(totals / totals[-1])

    # -- top-p

    @cached_property
    def kept(self) -> int:
        """How many stay after top-p too."""
        if self.settings.top_p == 1:
            return len(self.running)
        before_it_crosses = int(np.searchsorted(self.running, self.settings.top_p - ROUNDING, side="left"))
        return min(before_it_crosses + 1, len(self.running))

    @cached_property
    def removed_by_p(self) -> float:
        """The share of `after_k` that top-p took away."""
        return float(self._along[self.kept : self.kept_by_k].sum() / self._along[: self.kept_by_k].sum())

    @cached_property
    def kept_mass(self) -> float:
        """The share of `tempered` that both cuts left."""
        return float(self._along[: self.kept].sum())

    @cached_property
    def odds(self) -> Floats:
        """After both cuts, rescaled to 1, by token id: what the draw uses."""
        return self._rescaled(self.kept)

    def _rescaled(self, kept: int) -> Floats:
        found = np.zeros(len(self.logits))
        found[self.order[:kept]] = self._along[:kept] / self._along[:kept].sum()
        return found

    # -- the draw

    @cached_property
    def ends(self) -> Floats:
        """Where the intervals of the tokens that are left end, along the ranking."""
        left = self._along[: self.kept]
        return interval_ends(left / left.sum())

    @property
    def drawn(self) -> float:
        """The random number, in [0, 1)."""
        return uniform(self.settings.seed, self.position)

    @cached_property
    def rank(self) -> int:
        """The place in the ranking of the token whose interval holds the random number."""
        return 0 if self.settings.greedy else int(np.searchsorted(self.ends, self.drawn, side="right"))

    @property
    def token(self) -> int:
        """The token chosen."""
        return int(self.logits.argmax()) if self.rank == 0 else int(self.order[self.rank])

    @property
    def interval(self) -> tuple[float, float]:
        """[low, high) of the token chosen."""
        return self.interval_of(self.rank)

    def interval_of(self, rank: int) -> tuple[float, float]:
        """[low, high) of a kept token; of one that was cut, an empty interval at 1."""
        if rank >= self.kept:
            return 1.0, 1.0
        return float(self.ends[rank - 1]) if rank else 0.0, float(self.ends[rank])

    def rank_of(self, token: int) -> int:
        """The place of a token id in the ranking."""
        return int(np.flatnonzero(self.order == token)[0])

    def candidates(self, offset: int = 0, limit: int = 20) -> list[Candidate]:
        """A window of the ranking, one row per token."""
        rows = []
        for rank, token in enumerate(self.order[offset : offset + limit].tolist(), start=offset):
            low, high = self.interval_of(rank)
            numbers = (self.logits, self.probs, self.tempered, self.after_k, self.odds)
            logit, prob, tempered, after_k, odds = (float(array[token]) for array in numbers)
            running = float(self.running[rank]) if rank < self.kept_by_k else 1.0
            rows.append(Candidate(rank, token, logit, prob, tempered, after_k, running, odds, low, high))
        return rows


@dataclass(frozen=True)
class Candidate:
    """One row of the ranked table; `running` is the total of `after_k` down to this row, which top-p looks at."""

    rank: int
    token: int
    logit: float
    prob: float
    tempered: float
    after_k: float
    running: float
    odds: float
    low: float
    high: float


def choose(logits: NDArray[np.float32], settings: Sampling, position: int, t: int | None = None) -> Choice:
    """Choose the token at `position` from the logits that precede it (at position `t` of their run: position − 1)."""
    logits = np.asarray(logits, dtype=np.float32)
    if not np.isfinite(logits).all():
        raise FaultyLogits("The logits hold NaN or ∞, so no token can be chosen.", "Its run names where that began.")
    return Choice(position - 1 if t is None else t, position, settings, logits)
