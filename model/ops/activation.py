"""The bend of the feed-forward network: GELU in its tanh form, or ReLU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from model.address import Index
from model.ops.base import Function, Group, Op, Place, Ref, Rule, Step, of_sum, subscript

if TYPE_CHECKING:
    from model.run import Run

ROOT = math.sqrt(2 / math.pi)
CUBE = 0.044715


def gelu_tanh(x: float) -> float:
    """0.5·x·(1 + tanh √(2/π)(x + 0.044715x³)) in float64 (Hendrycks & Gimpel 2016), without cancellation for x ≪ 0."""
    return x * gate(x)


def gate(x: float) -> float:
    """½(1 + tanh u) = 1/(1 + e^(−2u)): the share of x that GELU lets through."""
    u = ROOT * (x + CUBE * x**3)
    return 1 / (1 + math.exp(-2 * u)) if u > -350 else 0.0


class Gelu(Op):
    """post[t,n] = pre[t,n] · ½(1 + tanh √(2/π)(pre + 0.044715·pre³))."""

    name = "gelu"
    function = Function("gelu_tanh", r"\mathrm{{GELU}}({})", of_sum(gelu_tanh))
    right = (
        r"\mathrm{{GELU}}({u}) = "
        r"\tfrac{{1}}{{2}}\,u\left(1 + \tanh\left(\sqrt{{2/\pi}}\,(u + 0.044715\,u^3)\right)\right)"
    )

    def __init__(self, mlp: str) -> None:
        self.pre, self.out = f"{mlp}.pre", f"{mlp}.post"
        self.reads = (self.pre,)

    def formula(self, run: Run, at: Place) -> str:
        return f"{subscript('g', at)} = " + self.right.format(u=subscript("u", at))

    def plain(self, run: Run, at: Place) -> str:
        return f"Neuron {at[1]} at {{t{at[0]}}}: a clear match passes almost whole, a mismatch is pressed towards zero."

    def forward(self, run: Run, at: Place) -> Rule:
        pre = Ref(self.pre, at)
        x, where = float(run.numbers(pre)), pre.address(0)
        u = ROOT * (x + CUBE * x**3)
        written = f"{ROOT!r}*({where}+{CUBE}*{where}*{where}*{where})"
        steps = (
            Step(r"w = \sqrt{2/\pi}\,(u + 0.044715\,u^3)", u, f"calc({written})"),
            Step(r"\tfrac{1}{2}(1 + \tanh w)", gate(x), f"calc(1/(1+exp(-2*({written}))))"),
        )
        return Rule("function", (Group((pre,), label="u"),), function=self.function, steps=steps)

    def readers(self, run: Run, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at]


class Relu(Gelu):
    """post[t,n] = max(0, pre[t,n])."""

    name = "relu"
    function = Function("relu", r"\max(0,\ {})", of_sum(lambda x: max(0.0, x)))
    right = r"\max(0,\ {u})"

    def plain(self, run: Run, at: Place) -> str:
        return f"Neuron {at[1]} at {{t{at[0]}}}: a match passes unchanged, anything below zero becomes 0."

    def forward(self, run: Run, at: Place) -> Rule:
        return Rule("function", (Group((Ref(self.pre, at),), label="u"),), function=self.function)
