"""The activation of the feed-forward network: GELU in its tanh form, or ReLU."""

from __future__ import annotations

import math

from model.ops.base import (
    Computed,
    Constant,
    Curve,
    Function,
    Group,
    Place,
    Ref,
    Rule,
    Step,
    along,
    grad,
    of_sum,
    subscript,
)
from model.ops.op import Op
from model.ops.values import Values

ROOT = math.sqrt(2 / math.pi)
CUBE = 0.044715


def gelu_tanh(x: float) -> float:
    """0.5·x·(1 + tanh √(2/π)(x + 0.044715x³)) in float64 (Hendrycks & Gimpel 2016), without cancellation for x ≪ 0."""
    return x * gate(x)


def gate(x: float) -> float:
    """½(1 + tanh u) = 1/(1 + e^(−2u)): the share of x that GELU lets through."""
    u = ROOT * (x + CUBE * x**3)
    return 1 / (1 + math.exp(-2 * u)) if u > -350 else 0.0


def _written(u: str) -> tuple[str, str]:
    """w = √(2/π)(u + 0.044715u³) and the gate 1/(1 + e^(−2w)) as expressions over the address `u`."""
    w = f"{ROOT!r}*({u}+{CUBE}*{u}*{u}*{u})"
    return w, f"1/(1+exp(-2*({w})))"


class Gelu(Op):
    """post[t,n] = pre[t,n] · ½(1 + tanh √(2/π)(pre + 0.044715·pre³))."""

    name = "gelu"
    stored_as: tuple[str, ...] = ("gelu_new", "gelu_pytorch_tanh")  # in a config.json; the first is the config's own
    function = Function(
        "gelu_tanh", r"\mathrm{{GELU}}({})", of_sum(gelu_tanh),
        'torch.nn.functional.gelu({}.sum(), approximate="tanh")',
        curve=Curve("GELU", gelu_tanh, -4.0, 3.0, "GELU({})"),
    )  # fmt: skip
    right = (
        r"\mathrm{{GELU}}({u}) = "
        r"\tfrac{{1}}{{2}}\,u\left(1 + \tanh\left(\sqrt{{2/\pi}}\,(u + 0.044715\,u^3)\right)\right)"
    )

    says = "Neuron {1} at {token}: a clear match passes almost whole, a mismatch is pressed towards zero."
    backward_latex = along("g") + r"\,\mathrm{GELU}'(u)"

    def __init__(self, mlp: str) -> None:
        self.pre, self.out = f"{mlp}.pre", f"{mlp}.post"
        self.reads = (self.pre,)

    def formula(self, run: Values, at: Place) -> str:
        return f"{subscript('g', at)} = " + self.right.format(u=subscript("u", at))

    def forward(self, run: Values, at: Place) -> Rule:
        pre = Ref(self.pre, at)
        u, bent, opened = float(run.numbers(pre)), *_written(pre.address(0))
        steps = (
            Step(r"w = \sqrt{2/\pi}\,(u + 0.044715\,u^3)", ROOT * (u + CUBE * u**3), f"calc({bent})"),
            Step(r"\tfrac{1}{2}(1 + \tanh w)", gate(u), f"calc({opened})"),
        )
        return Rule("function", (Group((pre,), label="u"),), function=self.function, steps=steps)

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        """g·gate(u) + g·u·gate′(u) with gate′ = gate·(1 − gate)·2√(2/π)(1 + 3·0.044715u²)."""
        pre, upstream = Ref(self.pre, at), grad(self.out, at)
        u, where = float(run.numbers(pre)), pre.address(0)
        _, opened = _written(where)
        steeper = f"{opened}*(1-{opened})*{2 * ROOT!r}*(1+{3 * CUBE!r}*{where}*{where})"
        through = Computed(f"calc({opened})", gate(u))
        turning = Computed(f"calc({steeper})", gate(u) * (1 - gate(u)) * 2 * ROOT * (1 + 3 * CUBE * u**2))
        return (
            Group((upstream, through), label="what is let through"),
            Group((upstream, pre, turning), label="letting through more"),
        )


class Relu(Gelu):
    """post[t,n] = max(0, pre[t,n])."""

    name, stored_as = "relu", ("relu",)
    function = Function(
        "relu", r"\max(0,\ {})", of_sum(lambda x: max(0.0, x)), "torch.relu({}.sum())",
        curve=Curve("ReLU", lambda x: max(0.0, x), -3.0, 3.0, "ReLU({})"),
    )  # fmt: skip
    right = r"\max(0,\ {u})"
    says = "Neuron {1} at {token}: a match passes unchanged, anything below zero becomes 0."
    backward_latex = along("g") + r"\,[u > 0]"

    def forward(self, run: Values, at: Place) -> Rule:
        return Rule("function", (Group((Ref(self.pre, at),), label="u"),), function=self.function)

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        fires = float(run.numbers(Ref(self.pre, at))) > 0
        return (Group((grad(self.out, at), Constant(r"[u > 0]", float(fires)))),)


ACTIVATIONS = {stored: op for op in (Gelu, Relu) for stored in op.stored_as}


class GatedSilu(Op):
    """post[t,n] = silu(pre[t,n]) · pre_linear[t,n] with silu(u) = u/(1 + e^(−u)) (Shazeer 2020): SwiGLU."""

    name = "gated silu"
    says = "Neuron {1} at {token}: one match opens the gate, the other says what passes."

    def __init__(self, mlp: str) -> None:
        self.pre, self.linear, self.out = f"{mlp}.pre", f"{mlp}.pre_linear", f"{mlp}.post"
        self.reads = (self.pre, self.linear)

    def formula(self, run: Values, at: Place) -> str:
        u, w = subscript("u", at), subscript("w", at)
        return rf"{subscript('g', at)} = \mathrm{{silu}}({u})\,{w} = {u}\,\frac{{1}}{{1 + e^{{-{u}}}}}\,{w}"

    def forward(self, run: Values, at: Place) -> Rule:
        pre = Ref(self.pre, at)
        opened = Computed(f"calc(1/(1+exp(-{pre.address(0)})))", sigmoid(float(run.numbers(pre))))
        return Rule("sum", (Group((pre, opened, Ref(self.linear, at)), label="what is let through"),))


def sigmoid(u: float) -> float:
    """1/(1 + e^(−u)) without overflow."""
    return 1 / (1 + math.exp(-u)) if u > -700 else 0.0
