"""Sampling: against transformers' warpers, by hand at the boundaries where they differ, and many draws."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from model.errors import FaultyLogits, SettingError
from model.ops.values import Prompt
from model.runtime.choice_address import LISTED, ChoiceAddress
from model.runtime.run import Run
from model.runtime.sample import (
    MAX_SEED,
    Choice,
    Sampling,
    choose,
    interval_ends,
    ranking,
    softmax,
    uniform,
)
from tests.model.models import error_of, random_model

Logits = NDArray[np.float32]


def choice_of(logits: Any, position: int = 1, **settings: Any) -> Choice:
    return choose(np.array(logits, dtype=np.float32), Sampling(**settings), position)


def logits_for(probs: list[float]) -> Logits:
    """Logits whose softmax is `probs`, as near as float32 comes."""
    return np.log(np.array(probs)).astype(np.float32)


RANDOM = np.random.default_rng(5).normal(0, 3, 1000).astype(np.float32)
LOGITS = st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=60)
TEMPERATURE = st.floats(0.05, 5)


# -- transformers' warpers


def warped(logits: list[float], temperature: float, k: int, p: float) -> Logits:
    """Probabilities after transformers' three warpers in the order in which its `generate` applies them."""
    scores, ids = torch.tensor([logits]), torch.zeros(1, 1, dtype=torch.long)
    for warper in (TemperatureLogitsWarper(temperature), TopKLogitsWarper(k), TopPLogitsWarper(p)):
        scores = warper(ids, scores)
    return scores[0].double().softmax(-1).numpy()


@given(LOGITS, TEMPERATURE, st.integers(1, 80), st.floats(0.01, 0.999))
def test_equals_transformers_warpers(logits: list[float], temperature: float, k: int, p: float) -> None:
    ranked = sorted(logits, reverse=True)
    # transformers keeps every token that ties at k, so the cases without a tie there are compared here
    assume(k >= len(ranked) or np.float32(ranked[k - 1] / temperature) != np.float32(ranked[k] / temperature))
    running = np.cumsum(softmax(ranked[:k], temperature))
    assume(np.abs(running - p).min() > 1e-5)  # it adds up in float32: at p itself its rounding decides
    ours = choice_of(logits, temperature=temperature, top_k=k, top_p=p)
    theirs = warped(logits, temperature, k, p)
    assert np.abs(np.sort(ours.odds) - np.sort(theirs)).max() < 1e-5
    assert ours.kept == int((theirs > 0).sum()) or np.sort(ours.odds)[-int((theirs > 0).sum()) - 1] < 1e-37
    if len(set(ranked[: ours.kept + 1])) == min(ours.kept + 1, len(ranked)):  # no tie at the cut: the same tokens
        assert np.abs(ours.odds - theirs).max() < 1e-5


@pytest.mark.parametrize("temperature", [1e-4, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("k", [1, 40, 1000, 5000])
@pytest.mark.parametrize("p", [0.1, 0.9, 0.99])
def test_equals_transformers_on_a_whole_vocabulary(temperature: float, k: int, p: float) -> None:
    ours = choice_of(RANDOM, temperature=temperature, top_k=k, top_p=p)
    assert np.abs(ours.odds - warped(RANDOM.tolist(), temperature, k, p)).max() < 1e-6


# -- the boundaries, by hand


def test_ties_at_k_keep_the_lowest_ids() -> None:
    choice = choice_of([1.0, 3.0, 2.0, 2.0, 2.0], top_k=2)  # transformers would keep ids 1 to 4
    assert choice.order.tolist() == [1, 2, 3, 4, 0]
    assert np.flatnonzero(choice.odds).tolist() == [1, 2]
    assert choice.odds[1] == pytest.approx(math.e / (math.e + 1))
    total = math.exp(1) + math.exp(3) + 3 * math.exp(2)
    assert choice.removed_by_k == pytest.approx((math.exp(1) + 2 * math.exp(2)) / total)


def test_minus_zero_ties_with_zero() -> None:
    assert ranking(np.array([-0.0, 1.0, 0.0, -0.0, -1.0], dtype=np.float32)).tolist() == [1, 0, 2, 3, 4]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_ranking_is_a_stable_sort(logits: list[float]) -> None:
    assert ranking(np.array(logits, dtype=np.float32)).tolist() == sorted(range(len(logits)), key=lambda i: -logits[i])


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (0, 1),
        (0.3, 1),
        (0.49, 1),
        (0.51, 2),
        (0.7, 2),
        (0.79, 2),
        (0.81, 3),
        (0.94, 3),
        (0.96, 4),
        (0.999999, 4),
        (1, 4),
    ],
)
def test_the_token_that_crosses_p_stays(p: float, kept: int) -> None:
    choice = choice_of(logits_for([0.5, 0.3, 0.15, 0.05]), top_p=p)
    assert choice.kept == kept
    assert choice.removed_by_p == pytest.approx([0.5, 0.2, 0.05, 0][kept - 1], abs=1e-7)
    assert choice.odds[0] == pytest.approx(0.5 / [0.5, 0.8, 0.95, 1][kept - 1])


@pytest.mark.parametrize("n", [2, 4, 5, 8, 10, 20])
def test_reaching_p_exactly_is_enough(n: int) -> None:
    """Of n equal tokens, p = m/n keeps m: the rounding of 0.1 + 0.1 + … decides nothing."""
    for m in range(1, n + 1):
        choice = choice_of([0.5] * n, top_p=m / n)
        assert np.flatnonzero(choice.odds).tolist() == list(range(m))


def test_p_counts_what_k_left() -> None:
    probs = logits_for([0.4, 0.3, 0.2, 0.1])  # after k = 2: 4/7 = 0.57 and 3/7
    assert choice_of(probs, top_k=2, top_p=0.5).kept == 1
    assert choice_of(probs, top_p=0.5).kept == 2
    both = choice_of(probs, top_k=3, top_p=0.6)
    assert (both.kept_by_k, both.kept) == (3, 2)
    assert both.removed_by_k == pytest.approx(0.1)
    assert both.removed_by_p == pytest.approx(2 / 9)
    assert both.kept_mass == pytest.approx(0.7)


def test_temperature_comes_before_p() -> None:
    probs = logits_for([0.4, 0.3, 0.2, 0.1])
    assert choice_of(probs, temperature=0.2, top_p=0.7).kept == 1  # 0.4⁵ : 0.3⁵ is 4.2 : 1
    assert choice_of(probs, temperature=5, top_p=0.7).kept == 3


def test_zero_temperature_takes_the_largest_and_of_equals_the_lowest_id() -> None:
    choice = choice_of([1.0, 3.0, 3.0, 2.0], temperature=0)
    assert choice.token == 1
    assert choice.tempered.tolist() == choice.odds.tolist() == [0, 1, 0, 0]
    assert choice.interval == (0, 1)


@pytest.mark.parametrize("temperature", [1e-4, 1e-12, 1e-300, 5e-324])
def test_tiny_temperatures_do_not_overflow(temperature: float) -> None:
    choice = choice_of(RANDOM, temperature=temperature)
    assert choice.token == int(RANDOM.argmax())
    assert choice.odds.sum() == pytest.approx(1)
    assert choice_of([2.0, 7.0, 7.0], temperature=temperature).odds.tolist() == [0, 0.5, 0.5]


def test_high_temperature_flattens() -> None:
    choice = choice_of(RANDOM, temperature=5)
    ratio = choice.tempered[choice.order[0]] / choice.tempered[choice.order[9]]
    gap = float(RANDOM[choice.order[0]]) - float(RANDOM[choice.order[9]])
    assert ratio == pytest.approx(math.exp(gap / 5))


@pytest.mark.parametrize(
    "settings", [{"top_k": 1}, {"top_p": 0}, {"top_p": 0.0, "temperature": 5}, {"temperature": 0, "top_k": 9}]
)
def test_what_leaves_one_token(settings: dict[str, Any]) -> None:
    assert Sampling(**settings).greedy
    for position in range(20):
        choice = choice_of(RANDOM, position, **settings)
        assert (choice.token, choice.rank, choice.interval) == (int(RANDOM.argmax()), 0, (0.0, 1.0))


@pytest.mark.parametrize("settings", [{}, {"top_k": None}, {"top_k": 0}, {"top_k": 10**12}, {"top_p": 1}])
def test_what_cuts_nothing(settings: dict[str, Any]) -> None:
    choice = choice_of(RANDOM, **settings)
    assert choice.kept == choice.kept_by_k == len(RANDOM)
    assert choice.removed_by_k == choice.removed_by_p == 0
    assert np.abs(choice.odds - choice.probs).max() < 1e-15


# -- settings


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "seed"])
@pytest.mark.parametrize("value", [math.nan, -1, -0.5, math.inf, "1", [], True])
def test_bad_settings_are_named(name: str, value: Any) -> None:
    error = error_of(SettingError, lambda: Sampling(**{name: value}))
    assert error.code == "bad_setting"
    assert error.part == name
    assert error.hint
    assert error.message.startswith(f"{name} is {value!r}")


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 5.01), ("top_p", 1.0001), ("top_k", 2.5), ("seed", 0.5), ("seed", MAX_SEED + 1), ("seed", None)],
)
def test_settings_out_of_range(name: str, value: Any) -> None:
    assert error_of(SettingError, lambda: Sampling(**{name: value})).part == name


@pytest.mark.parametrize("fault", [math.nan, math.inf, -math.inf])
def test_faulty_logits_are_refused(fault: float) -> None:
    error_of(FaultyLogits, choice_of, [1.0, fault, 2.0])


# -- the draw


def test_the_random_numbers_are_the_same_everywhere() -> None:
    """The hashes are those that coreutils' `b2sum -l 64` gives of "0:1" and "7:12"."""
    assert uniform(0, 1) == (0xF227960998E4764C >> 11) / 2**53
    assert uniform(7, 12) == (0xD387071EBCFBAC92 >> 11) / 2**53


def test_the_random_numbers_are_even() -> None:
    numbers = np.array([uniform(seed, position) for seed in range(100) for position in range(200)])
    assert 0 <= numbers.min() < 0.001 < 0.999 < numbers.max() < 1
    assert chi_square(np.histogram(numbers, 50, (0, 1))[0], np.full(50, 1 / 50)) <= chi_square_limit(49)


def chi_square(counts: NDArray[Any], probs: NDArray[Any]) -> float:
    expected = probs * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def chi_square_limit(freedom: int) -> float:
    """What chi-square exceeds once in a million (Wilson and Hilferty 1931)."""
    part = 2 / (9 * freedom)
    return freedom * (1 - part + 4.75 * math.sqrt(part)) ** 3


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.5, "top_k": 30}, {"temperature": 1.7, "top_k": 25, "top_p": 0.8}]
)
def test_100_000_draws_meet_the_distribution(settings: dict[str, Any]) -> None:
    logits, draws = RANDOM[:40], 100_000
    first = choice_of(logits, **settings)
    drawn = np.array([uniform(11, position) for position in range(draws)])
    tokens = first.order[np.searchsorted(first.ends, drawn, side="right")]
    for position in range(0, draws, 997):  # that this is what `choose` does
        assert choice_of(logits, position, seed=11, **settings).token == tokens[position]
    counts = np.bincount(tokens, minlength=len(logits))
    assert set(np.flatnonzero(counts)) <= set(np.flatnonzero(first.odds))
    rare = first.odds * draws < 10  # counted together
    counts = np.append(counts[~rare], counts[rare].sum())
    probs = np.append(first.odds[~rare], first.odds[rare].sum())
    counts, probs = counts[probs > 0], probs[probs > 0]
    assert chi_square(counts, probs) <= chi_square_limit(len(probs) - 1)


@given(LOGITS, st.floats(0, 5), st.integers(0, 70), st.floats(0, 1), st.integers(0, MAX_SEED))
def test_the_number_drawn_lies_in_the_interval(
    logits: list[float], temperature: float, k: int, p: float, seed: int
) -> None:
    choice = choice_of(logits, temperature=temperature, top_k=k, top_p=p, seed=seed)
    low, high = choice.interval
    assert low <= choice.drawn < high
    assert choice.odds[choice.token] == pytest.approx(high - low, abs=1e-14)
    assert choice.odds[choice.token] > 0
    assert choice.rank_of(choice.token) == choice.rank < choice.kept <= choice.kept_by_k
    assert choice.odds.sum() == pytest.approx(1)


def test_intervals_leave_no_gap_at_the_end() -> None:
    ends = interval_ends(np.array([0.7, 0.1, 0.1, 0.1 - 1e-16, 0.0]))
    assert ends[3] == ends[4] == 1.0
    assert np.searchsorted(ends, np.nextafter(1, 0), side="right") == 3


def test_the_table_of_candidates() -> None:
    choice = choice_of(logits_for([0.1, 0.4, 0.2, 0.3]), top_k=3, top_p=0.6)
    rows = choice.candidates()
    assert [row.token for row in rows] == [1, 3, 2, 0]
    assert [row.rank for row in rows] == [0, 1, 2, 3]
    assert [row.running for row in rows] == pytest.approx([4 / 9, 7 / 9, 1, 1])
    assert [row.odds for row in rows] == pytest.approx([4 / 7, 3 / 7, 0, 0])
    assert [(row.low, row.high) for row in rows] == [(0, rows[0].odds), (rows[0].odds, 1), (1, 1), (1, 1)]
    assert choice.candidates(1, 2) == rows[1:3]
    assert choice.candidates(9, 5) == []


# -- addresses


def run_with(logits: Logits) -> Run:
    """A run whose last position has these logits."""
    model = random_model("wide")
    run = model.run("ab")
    captured = {"logits": torch.from_numpy(np.stack([RANDOM, RANDOM, logits]))}
    return Run(model, Prompt(run.text, run.tokens), captured)


TIED = np.round(RANDOM)  # a dozen values, each held by many tokens
CUTS = [
    {},
    {"temperature": 0.7},
    {"temperature": 0.7, "top_k": 5},
    {"temperature": 1.3, "top_k": LISTED + 1},
    {"top_k": 400, "top_p": 0.9},
    {"temperature": 5, "top_p": 0.95},
    {"temperature": 1e-4, "top_k": 40},
    {"temperature": 1e-4},
    {"temperature": 0},
    {"temperature": 0, "top_k": 3, "top_p": 0.5},
    {"top_k": 1},
    {"top_p": 0},
    {"top_k": 999},
    {"top_k": 900, "top_p": 1 - 1e-9},
]


@pytest.mark.parametrize("logits", [RANDOM, TIED, np.full(1000, 2.5, dtype=np.float32)], ids=["random", "tied", "flat"])
@pytest.mark.parametrize("settings", CUTS, ids=str)
def test_addresses_lead_to_the_numbers(logits: Logits, settings: dict[str, Any]) -> None:
    run = run_with(logits)
    choice = run.next(seed=4, **settings)
    at = ChoiceAddress(choice)

    seen: set[str] = set()

    def agrees(address: str, value: float) -> None:
        if address in seen:
            return
        seen.add(address)
        assert float(run.values(address)) == pytest.approx(value, rel=1e-6, abs=1e-12)
        assert not run.explain(address).fault

    for rank in {0, choice.rank, choice.kept - 1, min(choice.kept, 999), 500}:
        row = choice.candidates(rank, 1)[0]
        assert float(run.values(at.logit(row.token))) == row.logit
        agrees(at.gap(row.token), row.logit - float(logits.max()))
        agrees(at.prob(row.token), row.prob)
        agrees(at.tempered(row.token), row.tempered)
        agrees(at.after_k(row.token), row.after_k)
        agrees(at.odds(row.token), row.odds)
        agrees(at.running(row.rank), row.running)
        low, high = at.interval(row.rank)
        agrees(low, row.low)
        agrees(high, row.high)
    agrees(at.kept_mass, choice.kept_mass)
    agrees(at.removed_by_k, choice.removed_by_k)
    agrees(at.removed_by_p, choice.removed_by_p)


def test_a_choice_at_an_earlier_position() -> None:
    run = random_model("small").run("some text", bos=True)
    choice = run.next(t=3, temperature=0.9, seed=2)
    assert np.array_equal(choice.logits, run["logits[3,:]"])
    assert choice.drawn == uniform(2, 4)
    assert float(run.values(ChoiceAddress(choice).odds(choice.token))) == pytest.approx(choice.odds[choice.token])
    assert run.next(t=3, position=99).drawn == uniform(0, 99)
    assert run.next().t == run.n_pos - 1
    assert error_of(SettingError, lambda: run.next(t=10)).part == "t"
