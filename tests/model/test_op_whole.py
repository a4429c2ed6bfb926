"""Ops whole and in parts: sites derived, slopes at some places, what reads a number, sums that read one twice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from model.ops.activation import ACTIVATIONS, Gelu, Relu
from model.ops.op import Op
from model.runtime.sample import Sampling, choose
from tests.model.latex import Env, Named, value
from tests.model.op_oracle import TINY, case_of, contribution, place_in
from tests.model.test_sum_product import CASES as SUMS
from tests.model.test_sum_product import Numbers


@pytest.mark.parametrize("name", ["toy", "small", TINY])
def test_a_site_that_its_op_derives_is_the_one_captured(name: str) -> None:
    run = case_of(name).run
    derived = 0
    for node in run.model.graph:
        try:
            found = node.op.derive(run)
        except NotImplementedError:
            continue
        derived += 1
        assert torch.allclose(found, run.tensor(node.name), rtol=1e-5, atol=1e-6), node.name
    assert derived > len(run.model.graph.parameters)


@pytest.mark.parametrize(("name", "target"), [("toy", None), ("small", "sequence")])
def test_a_part_of_a_slope_is_that_part_of_the_whole(name: str, target: str | None) -> None:
    """Through each op alone, asked for with numbers, slices and both."""
    case = case_of(name, target)
    run = case.run
    asked = 0
    for node in run.model.graph:
        on_demand = [s for s in node.op.grad_reads if case.node(s).is_parameter or s.endswith((".exp", ".qk"))]
        for source in on_demand:
            shape = run.shape(source)
            whole = contribution(case, node, source)
            some = tuple(slice(1, 3) for _ in shape)
            for index in (some, (1, *some[1:]), (*some[:-1], 1), tuple(1 for _ in shape)):
                try:
                    part = node.op.gradient(run, source, index)
                except NotImplementedError:
                    break
                asked += 1
                off = float((part - whole[index]).abs().max())
                assert off <= 2e-5 * float(whole.abs().max()) + 1e-9, f"{source}{index} through {node.name}"
    assert asked > 50


def test_terms_of_a_softmax_are_exponentials_of_what_is_left_of_the_largest() -> None:
    case = case_of("small")
    for t in (0, 3):
        e = case.run.explain(f"probs[{t},5]", limit=1000)
        logits = case.run["logits"][t].astype(float)
        right = [math.exp(logits[5] - logits.max()), *(math.exp(x - logits.max()) for x in logits)]
        assert [term.product for term in e.terms] == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize(
    ("site", "of"), [("blocks.0.attn.pattern[1,3,2]", "blocks.0.attn.scores[1,3,0:4]"), ("probs[2,5]", "logits[2,:]")]
)
def test_an_exponential_has_an_address(site: str, of: str) -> None:
    run = case_of("small").run
    name, place = place_in(site)
    row = run[of].astype(float)
    found = float(run.values(run.model.graph[name].op.raised(run, place)))
    assert found == pytest.approx(math.exp(row[place[-1]] - row.max()), rel=1e-6)


def test_a_token_is_read_by_its_row_and_by_the_loss_before_it() -> None:
    run = case_of("toy").run
    assert run.explain("tokens[0]").used_by == ("embed[0,:]",)
    assert run.explain("tokens[3]").used_by == ("embed[3,:]", "loss_per_token[2]")


def test_logits_where_the_loss_reads_no_probability_have_no_terms() -> None:
    for t in range(3):
        e = case_of("toy").run.explain(f"logits[{t},1].grad")
        assert (e.n_terms, e.value) == (0, 0)
        assert e.notes


def test_with_p_of_1_the_unlikeliest_token_stays() -> None:
    choice = choose([0.0, -40.0, -80.0], Sampling(), 1)  # type: ignore[arg-type]
    assert (choice.kept, choice.removed_by_p) == (3, 0)
    assert choose([0.0, -40.0, -80.0], Sampling(top_p=0.999999), 1).kept == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("case", ["mean square", "square", "entry by entry"])
def test_a_sums_slope_is_what_its_latex_says(case: str) -> None:
    op, spec, scale = SUMS[case]
    run: Any = Numbers(op, spec, scale)
    env: Env = {site: Named(run.tensor(site).numpy(), letters) for site, letters in run.letters.items()}
    env |= {"∂y": Named(run.upstream.numpy(), op.letters), "n": 6.0}
    for site, tensor in run.tensors.items():
        found = value(op.slope(site), env).lined_up(run.letters[site])
        assert np.allclose(found, tensor.grad.numpy()), f"{case}, {site}: {op.slope(site)}"


def test_a_site_that_a_sum_reads_twice_is_read_at_two_places() -> None:
    op, spec, scale = SUMS["every row with every row"]
    run: Any = Numbers(op, spec, scale)
    every = slice(None, None)
    assert op.readers(run, "x", (1, 2)) == [(1, every), (every, 1)]
    assert op.slope("x") == r"\sum_{k} \frac{\partial L}{\partial y}\,x + \sum_{q} \frac{\partial L}{\partial y}\,x"
    assert [len(group.places) for group in op.backward(run, "x", (1, 2))] == [1, 1]


def test_heads_that_share_a_key_are_named_by_their_own_numbers() -> None:
    op, spec, scale = SUMS["grouped queries and keys"]
    run: Any = Numbers(op, spec, scale)
    for g in range(2):
        (group,) = op.backward(run, "k", (0, g, 3))
        heads = dict(zip(group.axes, group.places, strict=True))["head"]
        assert sorted(set(heads.tolist())) == [2 * g, 2 * g + 1]
        assert op.readers(run, "k", (0, g, 3)) == [(slice(2 * g, 2 * g + 2), slice(None, None), 0)]


def test_the_unembedding_is_the_embedding_under_another_name() -> None:
    op = case_of("toy").node("W_U").op
    assert op.readers(case_of("toy").run, "W_E", (4, 1)) == [(1, 4)]


def test_an_op_without_a_slope_says_so() -> None:
    with pytest.raises(NotImplementedError):
        Op().slope("embed")


def test_activations_by_the_names_that_configs_have_for_them() -> None:
    assert {"gelu_new": Gelu, "gelu_pytorch_tanh": Gelu, "relu": Relu} == ACTIVATIONS
