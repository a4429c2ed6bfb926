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
class Settings:
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
    """The random number in [0, 1) for the token at `position` of a text: 53 bits of BLAKE2b("seed:position").

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


def after_temperature(logits: NDArray[np.float32], order: Ints, temperature: float) -> Floats:
    """Probabilities by token id at this temperature; at 0 the first of the ranking has 1."""
    if temperature > 0:
        return softmax(logits, temperature)
    certain = np.zeros(len(logits))
    certain[order[0]] = 1.0
    return certain


def kept_by_top_p(running: Floats, top_p: float) -> int:
    """How many tokens of the ranking stay. `running`: their probabilities (adding to 1), added up along it."""
    if top_p == 1:
        return len(running)
    before_it_crosses = int(np.searchsorted(running, top_p - ROUNDING, side="left"))
    return min(before_it_crosses + 1, len(running))


def interval_ends(odds: Floats) -> Floats:
    """Where each token's interval ends when `odds` (in ranking order) are laid end to end over [0, 1)."""
    ends = np.cumsum(odds)
    ends[np.flatnonzero(odds)[-1] :] = 1.0  # exactly, so that every number in [0, 1) meets a token that has odds
    return ends


@dataclass(frozen=True, eq=False)
class Choice:
    """One choice laid open. Arrays with one number per token id, float64 but for the logits; `rank` counts from 0.

    t             position of the run whose logits these are; the choice is what follows it
    position      place of the chosen token in the whole text: with the seed it gives `drawn`
    logits        as the network computed them, float32
    probs         before temperature
    tempered      after temperature
    order         token ids along the ranking
    kept_by_k     how many stay after top-k; `removed_by_k` is their share of `tempered` that went
    after_k       rescaled to 1, 0 for what was cut
    kept          how many stay after top-p too; `removed_by_p` is the share of `after_k` that went
    odds          rescaled to 1 again: what the draw uses
    drawn         the random number, in [0, 1)
    interval      [low, high) of the token it fell on
    token, rank   the choice
    """

    t: int
    position: int
    settings: Settings
    logits: NDArray[np.float32] = field(repr=False)
    probs: Floats = field(repr=False)
    tempered: Floats = field(repr=False)
    order: Ints = field(repr=False)
    kept_by_k: int
    removed_by_k: float
    after_k: Floats = field(repr=False)
    kept: int
    removed_by_p: float
    odds: Floats = field(repr=False)
    ends: Floats = field(repr=False)  # of the kept tokens' intervals, along the ranking
    drawn: float
    rank: int
    token: int

    @property
    def interval(self) -> tuple[float, float]:
        return self.interval_of(self.rank)

    @property
    def kept_mass(self) -> float:
        """The share of `tempered` that both cuts left."""
        return float(self.tempered[self.order[: self.kept]].sum())

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
        running = np.cumsum(self.after_k[self.order[: offset + limit]])
        rows = []
        for rank, token in enumerate(self.order[offset : offset + limit].tolist(), start=offset):
            low, high = self.interval_of(rank)
            numbers = (self.logits, self.probs, self.tempered, self.after_k, self.odds)
            logit, prob, tempered, after_k, odds = (float(array[token]) for array in numbers)
            rows.append(Candidate(rank, token, logit, prob, tempered, after_k, float(running[rank]), odds, low, high))
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


def choose(logits: NDArray[np.float32], settings: Settings, position: int, t: int | None = None) -> Choice:
    """Choose the token at `position` from the logits that precede it (at position `t` of their run: position − 1)."""
    logits = np.asarray(logits, dtype=np.float32)
    if not np.isfinite(logits).all():
        raise FaultyLogits("The logits hold NaN or ∞, so no token can be chosen.", "Its run names where that began.")
    order = ranking(logits)
    tempered = after_temperature(logits, order, settings.temperature)
    along = tempered[order]

    kept_by_k = min(settings.top_k or len(order), len(order))
    running = np.cumsum(along[:kept_by_k])
    kept = kept_by_top_p(running / running[-1], settings.top_p)

    ends = interval_ends(along[:kept] / running[kept - 1])
    drawn = uniform(settings.seed, position)
    rank = int(np.searchsorted(ends, drawn, side="right"))
    return Choice(
        t=position - 1 if t is None else t,
        position=position,
        settings=settings,
        logits=logits,
        probs=softmax(logits),
        tempered=tempered,
        order=order,
        kept_by_k=kept_by_k,
        removed_by_k=float(along[kept_by_k:].sum()),
        after_k=_rescaled(tempered, order[:kept_by_k]),
        kept=kept,
        removed_by_p=float(along[kept:kept_by_k].sum() / running[-1]),
        odds=_rescaled(tempered, order[:kept]),
        ends=ends,
        drawn=drawn,
        rank=rank,
        token=int(order[rank]),
    )


def _rescaled(probs: Floats, kept: Ints) -> Floats:
    """The probabilities of `kept` divided by their sum; 0 elsewhere."""
    found = np.zeros(len(probs))
    found[kept] = probs[kept] / probs[kept].sum()
    return found
