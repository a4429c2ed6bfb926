"""An op that the project has never heard of, added at run time: its numbers are explained, and so are their slopes.

The squared ReLU (So et al. 2021), max(0, u)², in the place of a GPT-2's activation: one op class, one node, and a
network that computes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from model.arch.base import Node
from model.arch.gpt2.architecture import GPT2_ARCHITECTURE
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.arch.registry import ARCHITECTURES
from model.ops.base import Constant, Group, Place, Ref, Rule, along, grad, subscript
from model.ops.op import Op
from model.ops.values import Values
from model.runtime.capture import parameter_views
from model.runtime.language_model import LanguageModel
from model.runtime.run import Run
from tests.model.models import byte_tokenizer


class SquaredRelu(Op):
    """post[t,n] = max(0, pre[t,n])²."""

    name = "squared relu"

    def __init__(self, mlp: str) -> None:
        self.pre, self.out = f"{mlp}.pre", f"{mlp}.post"
        self.reads = (self.pre,)

    def _open(self, run: Values, at: Place) -> Constant:
        return Constant("[u > 0]", float(float(run.numbers(Ref(self.pre, at))) > 0))

    def formula(self, run: Values, at: Place) -> str:
        return rf"{subscript('g', at)} = \max(0,\ {subscript('u', at)})^2"

    def plain(self, run: Values, at: Place) -> str:
        return f"Neuron {at[1]} at {{t{at[0]}}}: a match counts by its square, anything below zero becomes 0."

    def forward(self, run: Values, at: Place) -> Rule:
        pre = Ref(self.pre, at)
        return Rule("sum", (Group((pre, pre, self._open(run, at))),))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        columns = (grad(self.out, at), Constant("2", 2.0), Ref(self.pre, at), self._open(run, at))
        return (Group(columns),)

    def slope(self, source: str) -> str:
        return along("g") + r"\,2\max(0, u)"

    def readers(self, run: Values, source: str, at: Place) -> list[Any]:
        return [at]


@dataclass(frozen=True)
class SquaredConfig(GPT2Config):
    model_type: ClassVar[str] = "squared"


class Squared(GPT2):
    def __init__(self, c: GPT2Config) -> None:
        super().__init__(c)
        for block in self.blocks:
            block.mlp.act = lambda u: u.clamp(min=0) ** 2
            block.mlp.act_backward = lambda u, post, slope: 2 * slope * u.clamp(min=0)


def nodes(c: GPT2Config) -> Iterator[Node]:
    for node in GPT2_ARCHITECTURE.nodes(c):
        is_ours = node.short == "post"
        yield replace(node, op=SquaredRelu(node.prefix.rstrip("."))) if is_ours else node


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    squared = replace(GPT2_ARCHITECTURE, model_type="squared", config=SquaredConfig, nodes=nodes, network=Squared)
    monkeypatch.setitem(ARCHITECTURES, "squared", squared)
    config = SquaredConfig(n_layer=2, n_head=2, d_model=16, d_mlp=24, d_vocab=270, n_ctx=32)
    net = Squared(config)
    torch.manual_seed(5)
    for p in net.parameters():
        torch.nn.init.normal_(p, 0.0, 0.3)
    return LanguageModel("squared", net.eval(), byte_tokenizer(config.d_vocab)).run("a b a b", target="b")


def test_its_numbers_and_all_others_are_explained_with_their_slopes(run: Run) -> None:
    for node in run.model.graph:
        at = ",".join(str(size // 2) for size in run.shape(node.name))
        address = f"{node.name}[{at}]" if at else node.name
        assert not run.explain(address).fault
        assert node.name == "tokens" or not run.explain(f"{address}.grad").fault
    e = run.explain("blocks.1.mlp.post[3,5]")
    assert (e.op, e.formula) == ("squared relu", r"g_{3,5} = \max(0,\ u_{3,5})^2")
    assert "blocks.1.mlp.post[3,5]" in run.explain("blocks.1.mlp.pre[3,5]").used_by


def test_its_slopes_are_those_of_autograd(run: Run) -> None:
    net = run.model.net.requires_grad_(True)
    loss = -net(torch.tensor([run.tokens]))[0, -1].log_softmax(-1)[run.target]
    loss.backward()
    assert float(run["loss"]) == pytest.approx(loss.item(), rel=1e-5)
    theirs: dict[str, Tensor] = {}
    for name, p in net.named_parameters():
        assert p.grad is not None
        theirs |= run.model.architecture.views(name, p.grad, net.config)
    for name in parameter_views(net):
        largest = float(theirs[name].abs().max())
        np.testing.assert_allclose(run[f"{name}.grad"], theirs[name], atol=2e-5 * largest + 1e-8)


def test_it_learns(run: Run) -> None:
    assert float(run["loss.step(2)"]) < float(run["loss"])
    assert not run.explain("blocks.0.mlp.post[1,1].step(2)").fault
