"""The parameter update: a weight after k steps of gradient descent, as terms over the steps' own slopes.

SGD: θ_k = θ_0 − η Σ_j ∂L/∂θ at step j. AdamW (Loshchilov & Hutter 2019, as PyTorch computes it): first decay,
θ ← θ − ηλθ, then θ ← θ − η·m̂/(√v̂ + ε) with m and v running averages of the slope and its square, m̂ = m/(1 − β₁ᵏ),
v̂ = v/(1 − β₂ᵏ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from model.ops.base import Computed, Constant, Group, Place, Ref, Rule, along

Optimizer = Literal["sgd", "adamw"]


@dataclass(frozen=True)
class Rate:
    """How to step: η, and which rule. The AdamW settings are PyTorch's defaults."""

    eta: float
    optimizer: Optimizer = "sgd"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    decay: float = 0.01

    def share(self, moment: str, k: int, j: int) -> float:
        """How much step j's slope counts in the moment m or v after k steps: (1 − β)·β^(k−1−j)."""
        beta = self.beta1 if moment == "m" else self.beta2
        return (1 - beta) * beta ** (k - 1 - j)


class Stepper:
    """The update itself, in float32, one stored tensor at a time, in the order PyTorch's optimizers do it."""

    def __init__(self, rate: Rate) -> None:
        self.rate, self.taken = rate, 0
        self._m: dict[str, Tensor] = {}
        self._v: dict[str, Tensor] = {}

    def move(self, name: str, p: Tensor, g: Tensor) -> None:
        """Change the weights `p` in place by their slopes `g`, as step number `taken` (the caller counts, from 1)."""
        r = self.rate
        if r.optimizer == "sgd":
            p.add_(g, alpha=-r.eta)
            return
        m, v = self._m.setdefault(name, torch.zeros_like(p)), self._v.setdefault(name, torch.zeros_like(p))
        p.mul_(1 - r.eta * r.decay)
        m.lerp_(g, 1 - r.beta1)
        v.mul_(r.beta2).addcmul_(g, g, value=1 - r.beta2)
        spread = (v.sqrt() / (1 - r.beta2**self.taken) ** 0.5).add_(r.eps)
        p.addcdiv_(m, spread, value=-r.eta / (1 - r.beta1**self.taken))


def step_rule(rate: Rate, name: str, at: Place, k: int, moments: tuple[float, float]) -> Rule:
    """The weight at `at` after k steps. `moments` are AdamW's m and v after them (SGD reads none)."""
    if k == 0:
        return Rule("sum", (Group((Ref(name, at),), label="the start"),))
    if rate.optimizer == "sgd":
        first = Group((Ref(name, at),), label="before")
        minus_eta = Constant(r"-\eta", -rate.eta)
        steps = [Group((minus_eta, Ref(name, at, f"grad({j})")), label=f"step {j + 1}") for j in range(k)]
        return Rule("sum", (first, *steps))
    before = Ref(name, at, f"step({k - 1})")
    place = before.address(0).removesuffix(f".step({k - 1})")
    m, v = moments
    bias1, bias2 = 1 - rate.beta1**k, 1 - rate.beta2**k
    ratio = f"{place}.m({k})/{bias1!r}/(sqrt({place}.v({k})/{bias2!r})+{rate.eps!r})"
    push = (m / bias1) / ((v / bias2) ** 0.5 + rate.eps)
    decay = Constant(r"-\eta\lambda", -rate.eta * rate.decay)
    return Rule(
        "sum",
        (
            Group((before,), label="before"),
            Group((decay, before), label="decay"),
            Group((Constant(r"-\eta", -rate.eta), Computed(f"calc({ratio})", push)), label=r"m̂ / (√v̂ + ε)"),
        ),
    )


def moment_rule(rate: Rate, moment: str, name: str, at: Place, k: int) -> Rule:
    """AdamW's m or v after k steps: each step's slope (or its square), the older the less it counts."""
    groups = []
    for j in range(k):
        beta = r"\beta_1" if moment == "m" else r"\beta_2"
        share = Constant(rf"(1-{beta}){beta}^{{{k - 1 - j}}}", rate.share(moment, k, j))
        slope = Ref(name, at, f"grad({j})")
        groups.append(Group((share, slope) if moment == "m" else (share, slope, slope), label=f"step {j + 1}"))
    return Rule("sum", tuple(groups))


def step_formula(rate: Rate, symbol: str, k: int) -> str:
    """LaTeX of the update."""
    slope = along(r"\theta")
    if rate.optimizer == "sgd":
        total = rf"\eta\,{slope}" if k == 1 else rf"\eta \sum_{{j=0}}^{{{k - 1}}} {slope}\Big|_j"
        return rf"\theta_{{{k}}} = \theta_0 - {total} \quad (\theta = {symbol})"
    push = r"\eta\,\frac{\hat{m}}{\sqrt{\hat{v}} + \varepsilon}"
    return rf"\theta_{{{k}}} = \theta_{{{k - 1}}} - \eta\lambda\,\theta_{{{k - 1}}} - {push} \quad (\theta = {symbol})"
