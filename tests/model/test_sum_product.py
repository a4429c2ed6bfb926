"""Sums of products whose factors are the same site, whose heads share a factor, or whose mean is taken: the slopes.

Each is held against PyTorch's autograd, term by term in total and as a whole tensor.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from model.explain.terms import products_of
from model.ops.base import Column, Constant, Floats, Ref, Rule
from model.ops.linear import AXES, Operand, SumProduct, axes_of

SIZES = {"pos": 3, "query": 3, "key": 3, "head": 4, "kv_head": 2, "d_head": 5, "d_model": 6, "d_mlp": 2, "d_vocab": 2}


def sum_product(out: str, first: tuple[str, str], second: tuple[str, str], **how: Any) -> SumProduct:
    factors = Operand(*first, first[0]), Operand(*second, second[0])
    return SumProduct("product", "out", out, factors, symbol="y", says="", **how)


CASES = {
    "mean square": (sum_product("t", ("x", "ti"), ("x", "ti"), is_mean=True), "ti,ti->t", 1 / 6),
    "square": (sum_product("ti", ("x", "ti"), ("x", "ti")), "ti,ti->ti", 1.0),
    "every row with every row": (sum_product("qk", ("x", "qi"), ("x", "ki")), "qi,ki->qk", 1.0),
    "entry by entry": (sum_product("ti", ("x", "ti"), ("w", "i")), "ti,i->ti", 1.0),
    "grouped queries and keys": (sum_product("hqk", ("q", "qhc"), ("k", "kgc")), "qhc,khc->hqk", 1.0),
    "grouped values": (sum_product("qhc", ("a", "hqk"), ("v", "kgc")), "hqk,khc->qhc", 1.0),
}


class Numbers:
    """As much of a run as a sum of products asks for."""

    def __init__(self, op: SumProduct, spec: str, scale: float) -> None:
        torch.manual_seed(3)
        self.letters = {f.site: f.letters for f in op.factors}
        self.tensors = {
            site: torch.randn([SIZES[axis] for axis in axes_of(letters)], dtype=torch.float64, requires_grad=True)
            for site, letters in self.letters.items()
        }
        spread = [
            t.repeat_interleave(SIZES["head"] // SIZES["kv_head"], letters.index("g")) if "g" in letters else t
            for t, letters in ((self.tensors[f.site], f.letters) for f in op.factors)
        ]
        self.out = torch.einsum(spec, *spread) * scale
        self.upstream = torch.randn_like(self.out)
        self.out.backward(self.upstream)

    def size(self, axis: str) -> int:
        return SIZES[axis]

    def shape(self, site: str) -> tuple[int, ...]:
        return tuple(self.tensors[site].shape)

    def tensor(self, site: str) -> Tensor:
        return self.tensors[site].detach()

    def gradient(self, site: str) -> Tensor:
        assert site == "out"
        return self.upstream

    def numbers(self, column: Column) -> Floats:
        if isinstance(column, Constant):
            return np.asarray(column.value)
        assert isinstance(column, Ref)
        tensor = self.upstream if column.quantity == "grad" else self.tensor(column.site)
        return np.asarray(tensor.numpy()[column.index])


@pytest.mark.parametrize("case", CASES)
def test_each_number_and_each_slope_is_that_of_autograd(case: str) -> None:
    op, spec, scale = CASES[case]
    run: Any = Numbers(op, spec, scale)
    for at in product(*(range(SIZES[AXES[letter]]) for letter in op.letters)):
        assert products_of(op.forward(run, at), run.numbers).sum() == pytest.approx(float(run.out[at]))
    for site, tensor in run.tensors.items():
        for at in product(*map(range, tensor.shape)):
            groups = op.backward(run, site, at)
            assert products_of(Rule("sum", groups), run.numbers).sum() == pytest.approx(float(tensor.grad[at])), (
                site,
                at,
            )
            assert op.readers(run, site, at)
        if "g" not in "".join(run.letters.values()):
            whole = tuple(slice(None, None) for _ in tensor.shape)
            torch.testing.assert_close(op.gradient(run, site, whole), tensor.grad)


def test_a_square_counts_both_its_factors_in_one_term_and_says_so() -> None:
    op, spec, scale = CASES["mean square"]
    run: Any = Numbers(op, spec, scale)
    (group,) = op.backward(run, "x", (1, 2))
    assert [c.name for c in group.factors if isinstance(c, Constant)] == ["2", r"\tfrac{1}{6}"]
    assert op.reads == ("x",)
    assert op.formula(run, (1,)) == r"y_{1} = \frac{1}{6} \sum_{i=0}^{5} x_{1,i}^2"
    assert op.slope("x") == r"\frac{\partial L}{\partial y}\,\frac{2}{n}\,x"
