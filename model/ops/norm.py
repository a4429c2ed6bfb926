"""LayerNorm in five small ops: mean, variance, scale, normalised, and the learned weight and bias.

(x − μ) / √(σ² + ε) · w + b over one position's d numbers (Ba, Kiros & Hinton 2016); σ² divides by d.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from model.address.trees import Index
from model.ops.base import (
    SQRT,
    Column,
    Constant,
    Difference,
    Group,
    Inverse,
    Place,
    Ref,
    Rule,
    along,
    every,
    fraction,
    grad,
    subscript,
    summed,
)
from model.ops.op import Op
from model.ops.values import Values

HAT = r"\hat{x}"


class NormOp(Op):
    """Shared by the five: `x` is the site normalised, `ln` the prefix of the norm's own sites, `eps` the ε of Scale."""

    site = ""
    picture = "norm"
    parts: tuple[str, ...] = ()

    def __init__(self, ln: str, x: str, eps: float = 0.0) -> None:
        self.ln, self.x, self.eps = ln, x, eps
        self.out = f"{ln}.{self.site}"
        self.reads = tuple(x if part == "x" else f"{ln}.{part}" for part in self.parts)

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at[:1]]


class Mean(NormOp):
    """μ[t] = Σ_i x[t,i] / d."""

    name = site = "mean"
    parts = ("x",)
    says = "The average of the {d_model:,} numbers that stand for {token} here."
    backward_latex = along(r"\mu") + r"\,\frac{1}{d}"

    def formula(self, run: Values, at: Place) -> str:
        d = run.size("d_model")
        return rf"\mu_{{{at[0]}}} = \frac{{1}}{{{d}}} \sum_{{i=0}}^{{{d - 1}}} x_{{{at[0]},i}}"

    def forward(self, run: Values, at: Place) -> Rule:
        i = np.arange(d := run.size("d_model"))
        return Rule("sum", (summed("d_model", i, Ref(self.x, (at[0], i)), fraction(1, d)),))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        return (Group((grad(self.out, at[:1]), fraction(1, run.size("d_model")))),)


class Variance(NormOp):
    """σ²[t] = Σ_i (x[t,i] − μ[t])² / d."""

    name, site = "variance", "var"
    parts = ("x", "mean")
    says = "How far the {d_model:,} numbers of {token} lie from their mean: the average square."

    def formula(self, run: Values, at: Place) -> str:
        t, d = at[0], run.size("d_model")
        return rf"\sigma^2_{{{t}}} = \frac{{1}}{{{d}}} \sum_{{i=0}}^{{{d - 1}}} (x_{{{t},i}} - \mu_{{{t}}})^2"

    def forward(self, run: Values, at: Place) -> Rule:
        i = np.arange(d := run.size("d_model"))
        deviation = Difference(Ref(self.x, (at[0], i)), Ref(f"{self.ln}.mean", at))
        return Rule("sum", (summed("d_model", i, deviation, deviation, fraction(1, d)),))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        t, d = at[0], run.size("d_model")
        upstream, mean = grad(self.out, (t,)), Ref(f"{self.ln}.mean", (t,))
        if source == self.x:
            return (Group((upstream, fraction(2, d), Difference(Ref(self.x, at), mean))),)
        i = np.arange(d)
        against = Constant(rf"-\tfrac{{2}}{{{d}}}", -2 / d)
        return (summed("d_model", i, upstream, against, Difference(Ref(self.x, (t, i)), mean)),)

    def slope(self, source: str) -> str:
        if source == self.x:
            return along(r"\sigma^2") + r"\,\frac{2}{d}(x - \mu)"
        return rf"\sum_i {along(chr(92) + 'sigma^2')}\,\left(-\frac{{2}}{{d}}\right)(x_i - \mu)"


class Scale(NormOp):
    """scale[t] = √(σ²[t] + ε): ε sits under the root, so a row of equal numbers does not divide by zero."""

    name = site = "scale"
    parts = ("var",)
    symbol, label = r"\sigma^2", "variance"
    says = "The typical distance from the mean: the square root of the variance, with a tiny ε so it is never zero."
    backward_latex = along(r"\mathrm{scale}") + r"\,\frac{1}{2\,\mathrm{scale}}"

    def formula(self, run: Values, at: Place) -> str:
        t = at[0]
        return rf"\mathrm{{scale}}_{{{t}}} = \sqrt{{{self.symbol}_{{{t}}} + \varepsilon}}"

    def forward(self, run: Values, at: Place) -> Rule:
        square = Group((Ref(self.reads[0], at),), label=self.label)
        eps = Group((Constant(r"\varepsilon", self.eps),), label="ε")
        return Rule("function", (square, eps), function=SQRT)

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        return (Group((grad(self.out, at), Constant(r"\tfrac{1}{2}", 0.5), Inverse(Ref(self.out, at)))),)


class RootMeanSquare(Scale):
    """scale[t] = √(ms[t] + ε): RMSNorm measures a row from 0, not from its mean (Zhang & Sennrich 2019)."""

    name = "root mean square"
    parts = ("ms",)
    symbol, label = r"\mathrm{ms}", "mean square"
    says = "The typical size of the row's numbers: the root of their mean square, and a tiny ε so it is never zero."


class Normalize(NormOp):
    """normalized[t,i] = (x[t,i] − μ[t]) / scale[t]."""

    name, site = "normalize", "normalized"
    parts: tuple[str, ...] = ("x", "mean", "scale")
    says = "Take the mean of {token}'s numbers away, divide by their scale: what is left has mean 0 and spread 1."

    def formula(self, run: Values, at: Place) -> str:
        t = at[0]
        top = rf"{subscript('x', at)} - \mu_{{{t}}}"
        return rf"{subscript(HAT, at)} = \frac{{{top}}}{{\mathrm{{scale}}_{{{t}}}}}"

    def forward(self, run: Values, at: Place) -> Rule:
        deviation = Difference(Ref(self.x, at), Ref(f"{self.ln}.mean", at[:1]))
        return Rule(
            "quotient",
            (Group((deviation,), label="x − mean"), Group((Ref(f"{self.ln}.scale", at[:1]),), label="scale")),
        )

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        t = at[0]
        over = Inverse(Ref(f"{self.ln}.scale", (t,)))
        if source == self.x:
            return (Group((grad(self.out, at), over)),)
        i = np.arange(run.size("d_model"))
        minus = Constant("-1", -1.0)
        columns: tuple[Column, ...] = (grad(self.out, (t, i)), minus, over)
        if source.endswith(".scale"):  # d/ds of (x − μ)/s is −(x − μ)/s² = −normalized/s
            columns = (grad(self.out, (t, i)), minus, Ref(self.out, (t, i)), over)
        return (summed("d_model", i, *columns),)

    def slope(self, source: str) -> str:
        upstream, over = along(HAT), r"\frac{1}{\mathrm{scale}}"
        if source == self.x:
            return rf"{upstream}\,{over}"
        if source.endswith(".scale"):
            return rf"\sum_i {upstream}\left(-{HAT}_i\right){over}"
        return rf"\sum_i {upstream}\left(-{over}\right)"

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at] if source == self.x else [(at[0], every())]


class Divide(Normalize):
    """normalized[t,i] = x[t,i] / scale[t]."""

    name = "divide"
    parts = ("x", "scale")
    says = "Divide {token}'s numbers by their size: what is left has a mean square of 1."

    def formula(self, run: Values, at: Place) -> str:
        return rf"{subscript(HAT, at)} = \frac{{{subscript('x', at)}}}{{\mathrm{{scale}}_{{{at[0]}}}}}"

    def forward(self, run: Values, at: Place) -> Rule:
        scale = Group((Ref(f"{self.ln}.scale", at[:1]),), label="scale")
        return Rule("quotient", (Group((Ref(self.x, at),), label="x"), scale))


class Affine(NormOp):
    """out[t,i] = normalized[t,i]·w[i] + b[i]: the network may undo or bend what normalising did."""

    name, site = "affine", "out"
    parts = ("normalized", "w", "b")
    says = "Entry {1} gets its own learned stretch and shift, the same for every token."

    def formula(self, run: Values, at: Place) -> str:
        i = at[1]
        return rf"{subscript('y', at)} = {subscript(HAT, at)}\,w_{{{i}}} + b_{{{i}}}"

    def forward(self, run: Values, at: Place) -> Rule:
        stretched = Group((Ref(f"{self.ln}.normalized", at), Ref(f"{self.ln}.w", at[1:])), label="stretched")
        return Rule("sum", (stretched, Group((Ref(f"{self.ln}.b", at[1:]),), label="bias")))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        if source == f"{self.ln}.normalized":
            return (Group((grad(self.out, at), Ref(f"{self.ln}.w", at[1:]))),)
        t = np.arange(run.n_pos)
        columns: tuple[Column, ...] = (grad(self.out, (t, at[0])),)
        if source == f"{self.ln}.w":
            columns += (Ref(f"{self.ln}.normalized", (t, at[0])),)
        return (summed("pos", t, *columns),)

    def slope(self, source: str) -> str:
        upstream = along("y")
        if source == f"{self.ln}.normalized":
            return rf"{upstream}\,w"
        return rf"\sum_t {upstream}" + (rf"\,{HAT}_t" if source == f"{self.ln}.w" else "")

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        slopes = run.gradient(self.out).double()
        if source == f"{self.ln}.w":
            slopes = slopes * run.tensor(f"{self.ln}.normalized")
        return slopes.sum(0)[index]

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at] if source == f"{self.ln}.normalized" else [(every(), at[0])]
