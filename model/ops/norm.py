"""LayerNorm in five small ops: mean, variance, scale, normalised, and the learned weight and bias.

(x − μ) / √(σ² + ε) · w + b over one position's d numbers (Ba, Kiros & Hinton 2016); σ² divides by d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from model.address import Index
from model.ops.base import SQRT, Constant, Difference, Group, Op, Place, Ref, Rule, every, subscript

if TYPE_CHECKING:
    from model.run import Run


HAT = r"\hat{x}"


class NormOp(Op):
    """Shared by the five: `x` is the site normalised, `ln` the prefix of the norm's own sites."""

    def __init__(self, ln: str, x: str) -> None:
        self.ln, self.x = ln, x
        self.out = f"{ln}.{self.site}"
        self.reads = tuple(x if part == "x" else f"{ln}.{part}" for part in self.parts)

    site = ""
    parts: tuple[str, ...] = ()

    def readers(self, run: Run, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at[: len(run.model.graph[self.out].axes)]]


class Mean(NormOp):
    """μ[t] = Σ_i x[t,i] / d."""

    name = site = "mean"
    parts = ("x",)

    def formula(self, run: Run, at: Place) -> str:
        d = run.model.config.d_model
        return rf"\mu_{{{at[0]}}} = \frac{{1}}{{{d}}} \sum_{{i=0}}^{{{d - 1}}} x_{{{at[0]},i}}"

    def plain(self, run: Run, at: Place) -> str:
        return f"The average of the {run.model.config.d_model:,} numbers that stand for {{t{at[0]}}} here."

    def forward(self, run: Run, at: Place) -> Rule:
        d = run.model.config.d_model
        i = np.arange(d)
        share = Constant(rf"\tfrac{{1}}{{{d}}}", 1 / d)
        return Rule("sum", (Group((Ref(self.x, (at[0], i)), share), d, axes=("d_model",), places=(i,)),))


class Variance(NormOp):
    """σ²[t] = Σ_i (x[t,i] − μ[t])² / d."""

    name, site = "variance", "var"
    parts = ("x", "mean")

    def formula(self, run: Run, at: Place) -> str:
        t, d = at[0], run.model.config.d_model
        return rf"\sigma^2_{{{t}}} = \frac{{1}}{{{d}}} \sum_{{i=0}}^{{{d - 1}}} (x_{{{t},i}} - \mu_{{{t}}})^2"

    def plain(self, run: Run, at: Place) -> str:
        d = run.model.config.d_model
        return f"How far the {d:,} numbers of {{t{at[0]}}} lie from their mean: the average square."

    def forward(self, run: Run, at: Place) -> Rule:
        d = run.model.config.d_model
        i = np.arange(d)
        deviation = Difference(Ref(self.x, (at[0], i)), Ref(f"{self.ln}.mean", at))
        share = Constant(rf"\tfrac{{1}}{{{d}}}", 1 / d)
        return Rule("sum", (Group((deviation, deviation, share), d, axes=("d_model",), places=(i,)),))


class Scale(NormOp):
    """scale[t] = √(σ²[t] + ε): ε sits under the root, so a row of equal numbers does not divide by zero."""

    name = site = "scale"
    parts = ("var",)

    def formula(self, run: Run, at: Place) -> str:
        t = at[0]
        return rf"\mathrm{{scale}}_{{{t}}} = \sqrt{{\sigma^2_{{{t}}} + \varepsilon}}"

    def plain(self, run: Run, at: Place) -> str:
        return "The typical distance from the mean: the square root of the variance, with a tiny ε so it is never zero."

    def forward(self, run: Run, at: Place) -> Rule:
        var = Group((Ref(f"{self.ln}.var", at),), label="variance")
        eps = Group((Constant(r"\varepsilon", run.model.config.eps),), label="ε")
        return Rule("function", (var, eps), function=SQRT)


class Normalize(NormOp):
    """normalized[t,i] = (x[t,i] − μ[t]) / scale[t]."""

    name, site = "normalize", "normalized"
    parts = ("x", "mean", "scale")

    def formula(self, run: Run, at: Place) -> str:
        t = at[0]
        top = rf"{subscript('x', at)} - \mu_{{{t}}}"
        return rf"{subscript(HAT, at)} = \frac{{{top}}}{{\mathrm{{scale}}_{{{t}}}}}"

    def plain(self, run: Run, at: Place) -> str:
        numbers = f"{{t{at[0]}}}'s numbers"
        return f"Take the mean of {numbers} away, divide by their scale: what is left has mean 0 and spread 1."

    def forward(self, run: Run, at: Place) -> Rule:
        deviation = Difference(Ref(self.x, at), Ref(f"{self.ln}.mean", at[:1]))
        return Rule(
            "quotient",
            (Group((deviation,), label="x − mean"), Group((Ref(f"{self.ln}.scale", at[:1]),), label="scale")),
        )

    def readers(self, run: Run, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at] if source == self.x else [(at[0], every())]


class Affine(NormOp):
    """out[t,i] = normalized[t,i]·w[i] + b[i]: the network may undo or bend what normalising did."""

    name, site = "affine", "out"
    parts = ("normalized", "w", "b")

    def formula(self, run: Run, at: Place) -> str:
        i = at[1]
        return rf"{subscript('y', at)} = {subscript(HAT, at)}\,w_{{{i}}} + b_{{{i}}}"

    def plain(self, run: Run, at: Place) -> str:
        return f"Entry {at[1]} gets its own learned stretch and shift, the same for every token."

    def forward(self, run: Run, at: Place) -> Rule:
        stretched = Group((Ref(f"{self.ln}.normalized", at), Ref(f"{self.ln}.w", at[1:])), label="stretched")
        return Rule("sum", (stretched, Group((Ref(f"{self.ln}.b", at[1:]),), label="bias")))

    def readers(self, run: Run, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at] if source == f"{self.ln}.normalized" else [(every(), at[0])]
