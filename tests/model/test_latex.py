"""The calculator for formulas, on formulas whose value is plain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.model.latex import Named, number, sides, value

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
ENV = {
    "x": Named(X, "ti"),
    "x'": Named(10 * X, "ti"),
    "W_Q": Named(np.arange(6.0).reshape(3, 2), "ic"),
    "W_in": Named(np.array([7.0, 8.0]), "n"),
    "∂x": Named(np.ones((2, 3)), "ti"),
    "hat x": Named(-X, "ti"),
    "sigma_2": Named(np.array([0.5, 1.5]), "t"),
    "token": Named(np.array([1, 0]), "t"),
    "d": 3,
    "GELU": lambda u: 2 * u,
    "max": Named(6.0),
}


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\frac{1}{3} \sum_{i=0}^{2} x_{1,i}", 5.0),
        (r"\sum_{i=0}^{1} x_{0,i}", 3.0),
        (r"x_{0,1} - x_{1,0} - 1", -3.0),
        (r"-x_{0,1} + 3", 1.0),
        (r"x_{0,1}\,x'_{0,2}", 60.0),
        (r"\sum_{i=0}^{2} x_{0,i}\,W^{Q}_{i,1} + 1", 1 + 3 * 2 + 5 * 3 + 1),
        (r"W^{{\mathrm{in}}}_{1}", 8.0),
        (r"x_{\mathrm{token}_{0},2}", 6.0),
        (r"\sqrt{\sigma^2_{0} + x_{0,0}}", math.sqrt(1.5)),
        (r"(x_{0,1} - 5)^2", 9.0),
        (r"e^{x_{0,0} - \max_j x_{0,j}}", math.exp(-2)),
        (r"\log \sum_i e^{x_{1,i} - \max}", math.log(1 + math.exp(-1) + math.exp(-2))),
        (r"\hat{x}_{1,1}", -5.0),
        (r"\max(0,\ \hat{x}_{1,1})", 0.0),
        (r"\mathrm{GELU}(x_{0,2})", 6.0),
        (r"\tfrac{1}{2}\,d\left(1 + \tanh\left(\sqrt{2/4}\,d\right)\right)", 1.5 * (1 + math.tanh(math.sqrt(0.5) * 3))),
        (r"\frac{x_{0,0} - 3}{\frac{1}{2}}", -4.0),
    ],
)  # fmt: skip
def test_one_number(latex: str, expected: float) -> None:
    assert number(latex, ENV) == pytest.approx(expected, rel=1e-12)


def test_indices_left_out() -> None:
    found = value(r"\sum_{i} \frac{\partial L}{\partial x}\,W_Q", ENV)
    assert found.letters == "tc" and np.array_equal(found.data, np.ones((2, 3)) @ ENV["W_Q"].data)
    found = value(r"x \left(\frac{\partial L}{\partial x_i} - \sum_j x_j\right)", ENV)
    assert found.letters == "ti" and np.array_equal(found.data, X * (1 - X.sum(1, keepdims=True)))
    assert np.array_equal(value("[x > 2]", ENV).data, X > 2)


def test_sides_and_remarks() -> None:
    assert [float(side.data) for side in sides(r"x_{0,0} = \frac{2}{2} \quad (3 > 2)", ENV)] == [1.0, 1.0]


@pytest.mark.parametrize(
    "latex", [r"\sum_{v} x_{0,1}", "x_{0,1,2}", r"\sum_{i=0}^{3} x_{0,i}", "y", "x_{0,1})", r"\frac{1}"]
)
def test_what_cannot_be_read(latex: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        number(latex, ENV)
