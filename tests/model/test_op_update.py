"""The parameter update: each term, its label and its LaTeX against steps taken by hand in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from model.errors import ReaderError
from model.ops.update import Rate
from model.runtime import learn
from tests.model.latex import Env, Named, number, sides
from tests.model.op_oracle import address_of, case_of

PLACES = [
    ("W_E", (4, 1)),
    ("W_pos", (2, 0)),
    ("blocks.0.attn.W_Q", (1, 2, 0)),
    ("ln_final.w", (3,)),
    ("blocks.0.mlp.b_in", (5,)),
]
ETA = 0.02


def run_at(optimizer: Any) -> Any:
    return case_of("toy", "sequence").run.at_rate(Rate(ETA, optimizer))


def slopes_of(run: Any, at: str, k: int) -> list[float]:
    return [float(run[f"{at}.grad({j})"]) for j in range(k)]


def averages(g: list[float]) -> tuple[float, float]:
    """AdamW's m and v after these slopes, one after another."""
    m = v = 0.0
    for slope in g:
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
    return m, v


def adamw(weight: float, g: list[float]) -> list[float]:
    """The weight before the first step and after each, by the paper's formulas."""
    found = [weight]
    for k in range(1, len(g) + 1):
        m, v = averages(g[:k])
        weight -= ETA * 0.01 * weight
        weight -= ETA * (m / (1 - 0.9**k)) / ((v / (1 - 0.999**k)) ** 0.5 + 1e-8)
        found.append(weight)
    return found


@pytest.mark.parametrize(("site", "place"), PLACES)
@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_a_step_of_plain_descent(site: str, place: tuple[int, ...], k: int) -> None:
    run, at = run_at("sgd"), address_of(site, place)
    g = slopes_of(run, at, k)
    e = run.explain(f"{at}.step({k})", limit=100)
    before = float(run[at])
    assert e.value == pytest.approx(before - ETA * sum(g), rel=2e-6)
    assert [t.label for t in e.terms] == (["before", *(f"step {j}" for j in range(1, k + 1))] if k else ["the start"])
    assert [t.product for t in e.terms] == pytest.approx([before, *(-ETA * slope for slope in g)], rel=1e-6)
    for j, term in enumerate(e.terms[1:]):
        assert [f.address for f in term.factors] == [None, f"{at}.grad({j})"]
        assert number(term.factors[0].constant, {"eta": ETA}) == term.factors[0].value
    steps = {"theta": Named([before, *(before - ETA * np.cumsum(g))], "k"), "eta": ETA, "∂theta": Named(g, "j")}
    if k:
        check_formula(e, k, steps | ({"∂theta": g[0]} if k == 1 else {}))


@pytest.mark.parametrize(("site", "place"), PLACES)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_step_of_adamw(site: str, place: tuple[int, ...], k: int) -> None:
    run, at = run_at("adamw"), address_of(site, place)
    g = slopes_of(run, at, k)
    weights = adamw(float(run[at]), g)
    m, v = averages(g)
    m_hat, v_hat = m / (1 - 0.9**k), v / (1 - 0.999**k)
    push = m_hat / (v_hat**0.5 + 1e-8)
    e = run.explain(f"{at}.step({k})", limit=100)
    assert e.value == pytest.approx(weights[k], rel=1e-5, abs=1e-7)
    assert [t.label for t in e.terms] == ["before", "decay", "m̂ / (√v̂ + ε)"]
    before = weights[k - 1]
    assert [t.product for t in e.terms] == pytest.approx([before, -ETA * 0.01 * before, -ETA * push], rel=1e-4)
    first = f"{at}.step({k - 1})"
    assert [[f.address for f in t.factors] for t in e.terms[:2]] == [[first], [None, first]]
    assert float(run.values(e.terms[2].factors[1].address)) == pytest.approx(push, rel=1e-4)
    named: Env = {"eta": ETA, "lambda": 0.01, "hat m": m_hat, "hat v": v_hat, "varepsilon": 1e-8}
    for term in e.terms:
        for factor in term.factors:
            assert factor.constant is None or number(factor.constant, named) == pytest.approx(factor.value, rel=1e-12)
    check_formula(e, k, named | {"theta": Named(weights, "k")})


def check_formula(e: Any, k: int, env: Env) -> None:
    left, right = sides(e.formula, env)
    assert float(left.data) == pytest.approx(e.value, rel=1e-4)
    assert float(right.data) == pytest.approx(e.value, rel=1e-4), f"{e.formula} comes to {right.data}, not {e.value}"
    change = float(env["theta"].data[k] - env["theta"].data[0])
    assert float(right.data) - float(env["theta"].data[0]) == pytest.approx(change, rel=1e-3), e.formula


@pytest.mark.parametrize(("site", "place"), PLACES)
@pytest.mark.parametrize("k", [1, 3])
def test_running_averages(site: str, place: tuple[int, ...], k: int) -> None:
    run, at = run_at("adamw"), address_of(site, place)
    g = slopes_of(run, at, k)
    for moment, expected in zip("mv", averages(g), strict=True):
        e = run.explain(f"{at}.{moment}({k})", limit=100)
        beta = 0.9 if moment == "m" else 0.999
        assert e.value == pytest.approx(expected, rel=1e-5)
        assert e.used_by == (f"{at}.step({k})",)
        for j, term in enumerate(e.terms):
            share = (1 - beta) * beta ** (k - 1 - j)
            assert term.label == f"step {j + 1}"
            assert number(term.factors[0].constant, {"beta_1": 0.9, "beta_2": 0.999}) == pytest.approx(share, rel=1e-12)
            assert term.factors[0].value == pytest.approx(share, rel=1e-12)
            assert [f.address for f in term.factors[1:]] == [f"{at}.grad({j})"] * (1 if moment == "m" else 2)
            assert term.product == pytest.approx(share * g[j] ** (1 if moment == "m" else 2), rel=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_weights_parts_after_steps_are_parts_of_the_whole(optimizer: str) -> None:
    """A weight after steps, alone, in a row and in the run after them, is one number."""
    run = run_at(optimizer)
    for site, place in PLACES:
        whole = run[f"{site}.step(2)"]
        assert whole.shape == run.shape(site)
        assert float(run[f"{address_of(site, place)}.step(2)"]) == float(whole[place])
        assert np.array_equal(run[f"{site}[{place[0]}].step(2)"], whole[place[0]])
        assert np.array_equal(run.learning.runs[2][site], whole)
    assert np.array_equal(run["W_U.step(2)"], run["W_E.step(2)"].T)
    assert float(run["W_U[1,4].step(2)"]) == float(run["W_E[4,1].step(2)"])


def test_numbers_of_a_later_run_are_named_from_here() -> None:
    """Each factor of a number after two steps leads to the number after two steps; tokens stay."""
    run = run_at("sgd")
    for at in (
        "blocks.0.ln1.var[2]",
        "embed[1,2]",
        "blocks.0.ln1.scale[3]",
        "logits[1,2]",
        "blocks.0.attn.scores[0,2,1]",
    ):
        for quantity, later in (("", "step(2)"), (".grad", "grad(2)")):
            now, then = run.explain(at + quantity, limit=6), run.explain(f"{at}.{later}", limit=6)
            assert then.address == f"{at}.{later}" and then.value == float(run.learning.runs[2].values(at + quantity))
            for term, other in zip(now.terms, then.terms, strict=True):
                for factor, moved in zip(term.factors, other.factors, strict=True):
                    assert (factor.address is None) == (moved.address is None)
                    if moved.address:
                        assert float(run.values(moved.address)) == pytest.approx(moved.value, rel=1e-6)
                        assert moved.address.count("(2)") == len(
                            [x for x in moved.address.split("[")[:-1] if "tokens" not in x]
                        )
            assert len(now.used_by) == len(then.used_by)
            assert then.notes[-1] == "In the run after 2 learning steps."
    assert run.explain("loss.step(1)").notes[-1] == "In the run after 1 learning step."


@pytest.mark.parametrize("eta", [-1e-9, 1.000001e6, float("nan"), float("inf")])
def test_rates_that_are_refused(eta: float) -> None:
    with pytest.raises(ReaderError, match="from 0 up"):
        _ = case_of("toy").run.at_rate(Rate(eta)).learning


@pytest.mark.parametrize("eta", [0, 1e6])
def test_rates_at_the_edge(eta: float) -> None:
    run = case_of("toy").run.at_rate(Rate(eta))
    assert run.learning.rate.eta == eta
    if not eta:
        assert np.array_equal(run["W_E.step(3)"], run["W_E"])


def one_digit(x: float) -> float:
    """To one significant digit, towards zero."""
    power = math.floor(math.log10(x))
    return math.floor(x / 10.0**power) * 10.0**power


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("share", [0.25, 64.0])
def test_a_rate_is_halved_until_a_step_lowers_the_loss(
    monkeypatch: pytest.MonkeyPatch, share: float, optimizer: Any
) -> None:
    """It begins where the slope promises that share of the loss: of 64 times the loss, too far."""
    if share != 0.25:  # where it does begin
        monkeypatch.setattr(learn, "FIRST_STEP", share)
    run = case_of("toy", "sequence").run
    loss, power = float(run["loss"]), 2 if optimizer == "sgd" else 1
    weights = [node.name for node in run.model.graph.parameters if node.name != "W_U"]
    steep = sum(float((np.abs(run[f"{name}.grad"].astype(np.float64)) ** power).sum()) for name in weights)
    tried = [one_digit(min(share * loss / steep, 1))]
    while float(run.at_rate(Rate(tried[-1], optimizer))["loss.step"]) >= loss:
        tried.append(one_digit(tried[-1] / 2))
    assert (len(tried) > 1) == (share > 1)
    found = learn.suggested_rate(run, optimizer)
    assert found.eta == pytest.approx(tried[-1], rel=1e-12), f"tried {tried}"
    assert found.optimizer == optimizer


@pytest.mark.parametrize("steep", [0.0, float("inf"), float("nan")])
def test_a_rate_where_no_slope_says_how_far(monkeypatch: pytest.MonkeyPatch, steep: float) -> None:
    monkeypatch.setattr(learn, "steepness", lambda run, optimizer: steep)
    run = case_of("toy").run
    assert learn.suggested_rate(run, "sgd") == Rate(1e-3)
    assert learn.suggested_rate(run, "adamw") == Rate(1e-4, "adamw")


def test_the_published_model_has_a_rate_of_its_own() -> None:
    model = case_of("small").run.model
    named = type(model)("gpt2", model.net, model.tokenizer).run("some words")
    assert learn.suggested_rate(named) == Rate(2e-5)
    assert learn.suggested_rate(named, "adamw").eta != 2e-5
