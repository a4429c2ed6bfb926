"""How numbers look."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.render import numbers

floats = st.floats(width=32)


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (4.04444169, "4.0444"), (-0.5, "−0.5000"), (0.0, "0"), (-0.0, "0"), (3.0, "3"), (-12345.0, "−12,345"),
        (3.14e-7, "3.14×10⁻⁷"), (1.5e12, "1.50×10¹²"), (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_value(x: float, shown: str):
    assert numbers.value(x) == shown


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (0.858, "85.8 %"), (1.0, "100.0 %"), (0.0, "0.0 %"), (0.0033, "0.33 %"), (1e-9, "1.0×10⁻⁷ %"),
        (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_percent(p: float, shown: str):
    assert numbers.percent(p) == shown


@pytest.mark.parametrize(("x", "shown"), [(-0.04, "0.0"), (-0.06, "−0.1"), (1234.5, "1,234.5"), (-math.inf, "−∞")])
def test_fixed_has_no_negative_zero(x: float, shown: str):
    assert numbers.fixed(x, 1) == shown


@pytest.mark.parametrize(
    ("largest", "decimals"), [(85.3, 1), (4.04, 2), (0.153, 2), (1234.0, 0), (0.0, 2), (math.inf, 2), (math.nan, 2)]
)
def test_decimals_fit_a_cell(largest: float, decimals: int):
    assert numbers.decimals_for(largest) == decimals


@given(floats)
def test_every_number_has_a_form_without_ascii_minus(x: float):
    for shown in (numbers.value(x), numbers.full(x), numbers.fixed(x, 3), numbers.scientific(x), numbers.percent(x)):
        assert shown and "-" not in shown and "e" not in shown


@given(floats.filter(math.isfinite))
def test_full_reads_back_as_the_same_float32(x: float):
    import numpy as np

    shown = numbers.full(x).replace("−", "-")
    mantissa, _, exponent = shown.partition("×10")
    digits = {c: d for d, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
    power = "".join(str(digits.get(c, "-")) for c in exponent) or "0"
    assert np.float32(float(f"{mantissa}e{power}")) == np.float32(x)


@given(st.integers(-(10**9), 10**9))
def test_count_sets_thousands_apart(n: int):
    assert int(numbers.count(n).replace(",", "").replace("−", "-")) == n
