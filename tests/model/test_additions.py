"""The same weights without the residual additions: values and slopes against transformers' own parts and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.address.patch import NO_ADDITIONS
from model.runtime.run import Run
from tests.model.models import random_model, twin

MODEL = random_model("relu")


@pytest.fixture(scope="module")
def base() -> Run:
    return MODEL.run("the cat sat on")


@pytest.fixture(scope="module")
def bare(base: Run) -> Run:
    return base.changed([NO_ADDITIONS])


def test_values_and_slopes_are_those_of_the_parts_in_a_row(bare: Run) -> None:
    theirs = twin(MODEL.net).transformer
    ids = torch.tensor([bare.tokens])
    x = (theirs.wte(ids) + theirs.wpe(torch.arange(bare.n_pos))).detach().requires_grad_()
    ahead = torch.full((1, 1, bare.n_pos, bare.n_pos), -torch.inf).triu(1)
    before = []
    for block in theirs.h:
        before.append(x)
        x = block.attn(block.ln_1(x), attention_mask=ahead)[0]
        x = block.mlp(block.ln_2(x))
    logits = theirs.ln_f(x) @ theirs.wte.weight.T
    loss = -logits[0, -1].log_softmax(-1)[bare.target]
    slopes = torch.autograd.grad(loss, before)
    assert float(bare.values("loss")) == pytest.approx(float(loss.detach()), rel=1e-5)
    for n, slope in enumerate(slopes):
        np.testing.assert_allclose(bare[f"blocks.{n}.resid_pre"], before[n][0].detach(), atol=1e-4, rtol=1e-4)
        np.testing.assert_allclose(
            bare[f"blocks.{n}.resid_pre.grad"], slope[0], atol=1e-4 * float(slope.abs().max()), rtol=1e-3
        )


def test_it_is_another_network_with_the_same_weights_and_target(base: Run, bare: Run) -> None:
    assert bare.target == base.target and bare.tokens == base.tokens
    assert float(bare.values("loss")) != float(base.values("loss"))
    assert bare.model.net.W_E.data_ptr() == base.model.net.W_E.data_ptr()
    assert bare.model.original is base.model and base.model.original is base.model


@pytest.mark.parametrize(
    "at",
    [
        "blocks.0.resid_mid[2,5]", "blocks.1.resid_post[3,0]", "blocks.1.resid_pre[1,7]", "loss",
        "blocks.0.resid_pre[2,5].grad", "blocks.1.resid_mid[3,9].grad", "blocks.0.attn_out[1,4].grad", "W_E[3,2].grad",
    ],
)  # fmt: skip
def test_every_number_is_explained_by_what_this_network_reads(bare: Run, at: str) -> None:
    e = bare.explain(at, limit=400)
    assert not e.fault
    if "resid_mid" in at and ".grad" not in at:
        assert [factor.address for term in e.terms for factor in term.factors] == ["blocks.0.attn_out[2,5]"]
    if at == "blocks.1.resid_mid[3,9].grad":
        assert not any("resid_post" in (factor.address or "") for term in e.terms for factor in term.factors)


def test_numbers_may_be_set_besides(base: Run) -> None:
    both = base.changed(["embed[1,0]+=0.5", NO_ADDITIONS])
    assert both["embed[1,0]"] == base["embed[1,0]"] + 0.5
    assert np.array_equal(both["blocks.0.resid_mid"], both["blocks.0.attn_out"])
