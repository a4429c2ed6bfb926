"""Edges that ordinary texts do not reach: limits, exact zeros, numbers that are not finite, parts of a whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.arch.network import causal
from model.errors import ReaderError
from model.ops.base import arc_cosine, log, minus_log
from model.runtime.backward import loss_on, slopes_at_the_end
from model.runtime.sample import Sampling, choose
from tests.model.latex import value
from tests.model.models import SHAPES, random_model
from tests.model.op_oracle import case_of

# -- calc


@pytest.mark.parametrize(
    ("written", "n", "axes", "first"),
    [
        ("sum(2*logits[1,:])", 8, ("d_vocab",), (None, "logits[1,0]")),
        ("sum(logits[1,:]*loss)", 8, ("d_vocab",), ("logits[1,0]", "loss")),
        ("max(loss*logits[2:4,3:5])", 4, ("pos", "d_vocab"), ("loss", "logits[2,3]")),
        ("mean(embed[1:3,2])", 2, ("pos",), (None, "embed[1,2]")),
    ],
)
def test_a_range_and_a_number_have_a_term_for_each_of_the_range(
    written: str, n: int, axes: tuple[str, ...], first: tuple[str | None, ...]
) -> None:
    run = case_of("toy").run
    e = run.explain(f"calc({written})", limit=100)
    assert e.n_terms == n
    assert tuple(axis for axis, _ in e.terms[0].place) == axes
    assert tuple(f.address for f in e.terms[0].factors) == first
    assert e.total == pytest.approx(e.value, rel=1e-12)
    for term in e.terms:
        assert term.product == pytest.approx(np.prod([f.value for f in term.factors]), rel=1e-12)


def test_numerators_and_denominators_are_called_so() -> None:
    e = case_of("toy").run.explain("calc(loss/logits[1,2])")
    assert [(t.label, t.factors[0].address) for t in e.terms] == [("numerator", "loss"), ("denominator", "logits[1,2]")]


def test_a_product_of_products_opens_into_its_own_rows_and_columns() -> None:
    run = case_of("toy").run
    inside = "dot(dot(embed[1:3,:],blocks.0.attn.W_Q[0,:,:]),blocks.0.attn.W_O[0,:,:])"
    e = run.explain(f"calc(sum({inside}*W_E[2:4,:]))", limit=20)
    assert e.n_terms == 8
    whole = run["embed"][1:3] @ run["blocks.0.attn.W_Q"][0] @ run["blocks.0.attn.W_O"][0]
    for term in e.terms:
        row, column = divmod(term.index, 4)
        assert float(run.values(term.factors[0].address)) == pytest.approx(term.factors[0].value, rel=1e-12)
        assert term.factors[0].value == pytest.approx(whole[row, column], rel=1e-5)
        assert term.factors[1].address == f"W_E[{row + 2},{column}]"


@pytest.mark.parametrize("written", ["dot(W_E[1,:],blocks.0.attn.W_Q[:,:,:])", "dot(blocks.0.attn.q[1,:,:],loss)"])
def test_a_dot_takes_rows_and_matrices_alone(written: str) -> None:
    with pytest.raises(ReaderError, match="one or two axes"):
        case_of("toy").run.explain(f"calc({written})")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("exp(loss-1)", "exp"), ("log(loss)", "log"), ("sqrt(loss)", "sqrt"), ("acos(loss/9)", "arccos"),
        ("positive(loss)", "heaviside"), ("positive(loss-loss)", "heaviside"), ("positive(-loss)", "heaviside"),
    ],
)  # fmt: skip
def test_functions_are_what_their_latex_says(written: str, expected: str) -> None:
    e = case_of("toy").run.explain(f"calc({written})")
    x = float(e.products.sum())
    right = float(x > 0) if expected == "heaviside" else float(getattr(np, expected)(x))
    assert e.total == pytest.approx(right, rel=1e-12) and e.value == pytest.approx(right, rel=1e-6)
    written_out = e.function.latex.format("z")
    assert float(value(written_out, {"z": x, "positive": lambda u: u > 0}).data) == pytest.approx(right, rel=1e-12)


def test_functions_where_they_end() -> None:
    assert arc_cosine(1 + 5e-13) == 0 and arc_cosine(-1 - 5e-13) == math.pi
    assert math.isnan(arc_cosine(1 + 2e-12)) and math.isnan(arc_cosine(-1.5))
    assert arc_cosine(0.5) == pytest.approx(math.pi / 3)
    assert log(0) == -math.inf and math.isnan(log(-1e-300)) and log(0.5) == math.log(0.5)
    assert minus_log(0) == math.inf and minus_log(0.5) == -math.log(0.5) and minus_log(1) == 0


# -- sampling


def test_seeds_are_whole_numbers_that_every_reader_of_json_keeps() -> None:
    assert Sampling(seed=2**53 - 1).seed == 2**53 - 1
    with pytest.raises(ReaderError):
        Sampling(seed=2**53)


@pytest.mark.parametrize(("below", "kept"), [(1e-13, 1), (1e-11, 2)])
def test_what_counts_as_having_reached_p(below: float, kept: int) -> None:
    """Of two equal tokens the first reaches p = ½ + 10⁻¹³, which rounding may make of ½, and not p = ½ + 10⁻¹¹."""
    assert choose(np.zeros(2, np.float32), Sampling(top_p=0.5 + below), 1).kept == kept


def test_settings_left_out_change_nothing() -> None:
    choice = choose(np.array([0.3, 2.0, -1.0], np.float32), Sampling(), 4)
    assert (choice.t, choice.position, choice.kept, choice.kept_by_k) == (3, 4, 3, 3)
    assert np.array_equal(choice.tempered, choice.probs)
    assert [row.token for row in choice.candidates()] == [1, 0, 2]
    assert choice.rank_of(0) == 1


# -- the network


@pytest.mark.parametrize("fault", [math.inf, -math.inf, math.nan])
def test_the_mask_hides_what_is_not_finite(fault: float) -> None:
    """Wherever it stands, it makes no score ahead of its query anything but −∞, and no score behind another number."""
    qk = torch.randn(2, 4, 4)
    qk[1, 1, 3], qk[0, 2, 1] = fault, fault
    scores = causal(qk, 16)
    ahead = torch.ones(4, 4).triu(1).bool()
    assert (scores[:, ahead] == -math.inf).all()
    assert torch.equal(scores[:, ~ahead].nan_to_num(7.0), (qk / 4)[:, ~ahead].nan_to_num(7.0))


def test_relu_at_zero_lets_nothing_through() -> None:
    mlp = random_model("relu").net.blocks[0].mlp
    pre = torch.tensor([-1.0, 0.0, 2.0])
    assert mlp.act_backward(pre, pre.relu(), torch.ones(3)).tolist() == [0, 0, 1]


def test_a_new_network_starts_from_nothing_added() -> None:
    config, _ = SHAPES["small"]
    net = type(random_model("small").net)(config)
    net.init_weights(torch.Generator().manual_seed(0))
    for name, p in net.named_parameters():
        short = name.split(".")[-1]
        if short.startswith("b"):
            assert not p.any(), name
        elif short == "w":
            assert bool((p == 1).all()), name


def test_slopes_at_some_of_the_scored_positions_are_those_of_all() -> None:
    run = case_of("small", "sequence").run
    whole, some = slopes_at_the_end(run, run.scored), slopes_at_the_end(run, range(2, 4))
    for site in ("loss_per_token", "probs", "log_probs", "logits"):
        assert torch.equal(some[site], whole[site][2:4]), site
    assert float(some["loss"]) == 1


@pytest.mark.parametrize("target", [None, "sequence"])
def test_the_loss_alone_is_the_runs(target: str | None) -> None:
    run = case_of("small", target).run
    assert loss_on(run.model.capture, run) == pytest.approx(float(run["loss"]), rel=1e-6)
