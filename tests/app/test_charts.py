"""Charts: their lines end where the numbers do, long ones keep what stands out, bars point the right way."""

from __future__ import annotations

import re

import numpy as np
import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from app.render import charts, numbers, plot
from app.render.charts import BARS, POINTS, Listed

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-9)


def drawn(markup: str) -> BeautifulSoup:
    return BeautifulSoup(markup, "xml")


def line(markup: str) -> list[tuple[float, float]]:
    """The points of the running total's path, its steps followed."""
    path = drawn(markup).find("path", class_="total")
    x, y, points = 0.0, 0.0, []
    for command, places in re.findall(r"([MLHV])([^MLHV]+)", path["d"]):
        found = [float(n) for n in places.split()]
        x = found[0] if command in "MLH" else x
        y = found[-1] if command in "MLV" else y
        points.append((x, y))
    return points


def height_of_ticks(markup: str) -> dict[float, float]:
    """Value -> pixel of the labelled ticks, which rise; those of the bars' own band come after them."""
    found: dict[float, float] = {}
    for path, text in zip(
        drawn(markup).select("path.axis, path.grid-line"), drawn(markup).find_all("text"), strict=False
    ):
        if text.get("text-anchor") == "end":
            value = float(text.string.replace("−", "-"))
            if found and value <= max(found):
                break
            found[value] = float(re.findall(r"M[\d.]+ ([\d.]+)", path["d"])[0])
    return found


@pytest.mark.parametrize("n", [1, 3, 10, 150, 151, 769, 3073, 50_257])
def test_running_total_ends_at_the_total(n: int):
    products = np.random.default_rng(n).normal(0.3, 1.0, n)
    markup = charts.running_total(products, Listed(0, 10), "label")
    points, ticks = line(markup), height_of_ticks(markup)
    assert len(points) <= max(POINTS + 1, 2 * charts.STEPS + 1)
    values = sorted(ticks)
    slope = (ticks[values[-1]] - ticks[values[0]]) / (values[-1] - values[0])
    total = values[0] + (points[-1][1] - ticks[values[0]]) / slope
    assert total == pytest.approx(products.sum(), abs=0.15 / abs(slope))
    end = drawn(markup).find("circle", class_="end")
    assert (float(end["cx"]), float(end["cy"])) == points[-1]
    assert numbers.brief(float(products.sum())) in drawn(markup).find("text", class_="end").string


def test_running_total_reaches_its_extremes():
    products = np.concatenate([np.full(400, 0.01), [50.0, -49.0], np.full(3000, -0.001)])
    highest = np.cumsum(products).max()
    markup = charts.running_total(products, Listed(0, 10), "label")
    assert min(y for _, y in line(markup)) == pytest.approx(8, abs=0.2), f"{highest} is the top of the scale"


def test_few_terms_are_drawn_as_they_are():
    markup = charts.running_total(np.array([3.0, -1.0, 2.0]), Listed(0, 2), "label")
    soup = drawn(markup)
    bars = {css: soup.select(f"path.{css}") for css in ("up", "down")}
    assert sum(path["d"].count("M") for path in bars["up"]) == 2
    assert sum(path["d"].count("M") for path in bars["down"]) == 1
    assert "the 2 listed" in soup.get_text()
    heights = [y for _, y in line(markup)]
    assert heights[1] < heights[0] and heights[3] > heights[2] and heights[5] < heights[4]


@pytest.mark.parametrize("n", [4, BARS, BARS + 1, 50_257])
def test_long_sums_stay_small(n: int):
    markup = charts.running_total(np.random.default_rng(0).normal(size=n), Listed(0, 10), "label")
    assert len(markup) < 9_000
    assert markup.count("M") < 2 * BARS + 30


def test_bars_keep_the_extremes():
    products = np.zeros(5_000)
    products[1_234], products[3_210] = 7.0, -3.0
    soup = drawn(charts.running_total(products, Listed(0, 10), "label"))
    assert len(soup.select("path.up")) == 1
    assert len(soup.select("path.down")) == 1


def test_infinite_terms_do_not_break_a_chart():
    markup = charts.running_total(np.array([1.0, np.inf, np.nan, 2.0]), Listed(0, 4), "label")
    assert "nan" not in markup and "inf" not in markup


@given(hnp.arrays(float, st.integers(1, 400), elements=NUMBERS), st.integers(4, 120))
def test_decimation_keeps_ends_and_extremes(values, most):
    kept = charts.decimate(values, most)
    assert len(kept) <= max(most, min(len(values), most))
    assert list(kept) == sorted(set(kept))
    assert kept[0] == 0 and kept[-1] == len(values) - 1
    assert values[kept].max() == values.max() and values[kept].min() == values.min()


@given(NUMBERS, NUMBERS)
def test_ticks_are_round_and_inside(a, b):
    low, high = sorted((a, b))
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):
        return
    found = plot.ticks(low, high)
    slack = 1e-6 * (high - low)
    assert 1 <= len(found) <= 11
    assert all(low - slack <= tick <= high + slack for tick in found)


@pytest.mark.parametrize(
    ("x", "css", "length"),
    [(2.0, "up", 31.0), (-2.0, "down", 31.0), (1.0, "up", 15.5), (1e-9, "up", 0.5), (99.0, "up", 31.0)],
)
def test_signed_bar(x: float, css: str, length: float):
    bar = drawn(charts.signed_bar(x, 2.0)).find("rect")
    assert bar["class"] == css
    assert float(bar["width"]) == length
    side = 32 if x > 0 else 32 - length
    assert float(bar["x"]) == side


@pytest.mark.parametrize("x", [0.0, float("nan"), float("inf")])
def test_no_bar_for_nothing(x: float):
    rects = drawn(charts.signed_bar(x, 2.0)).find_all("rect")
    assert all(float(rect["width"]) <= 0.5 for rect in rects)


def test_curve_holds_its_point():
    markup = charts.curve(lambda x: x * x, 9.0, -1.0, 1.0, label="a < b", says="9² = 81")
    soup = drawn(markup)
    path = [tuple(map(float, pair.split())) for pair in soup.find("path", class_="total")["d"][1:].split("L")]
    dot = soup.find("circle", class_="end")
    assert (float(dot["cx"]), float(dot["cy"])) == path[-1]
    assert soup.svg["aria-label"] == "a < b"


def test_spread_counts_every_number():
    values = np.random.default_rng(0).normal(1.0, 2.0, 768)
    soup = drawn(charts.spread(values, float(values.mean()), float(values.std()), float(values[5]), "label"))
    tops = re.findall(r"V([\d.]+)", soup.select_one("path.count")["d"])
    counts, _ = np.histogram(values, bins=48)
    heights = [66 - float(top) for top in tops]
    assert sum(heights) * counts.max() / 60 == pytest.approx(768, rel=0.01)
    assert len(soup.select("path.guide")) == 2 and len(soup.select("path.mark")) == 1


def test_no_spread_of_equal_numbers():
    assert charts.spread(np.ones(8), 1.0, 0.1, None, "label") == ""


@pytest.mark.parametrize(
    ("x", "text"),
    [(4.0444, "4.04"), (-0.03876, "−0.0388"), (0.0, "0"), (1234.0, "1230"), (3e-7, "3×10⁻⁷"), (-2e6, "−2×10⁶")],
)
def test_brief(x: float, text: str):
    assert numbers.brief(x) == text


def test_a_sum_of_negative_terms_fills_its_chart():
    markup = charts.running_total(np.array([-3e-10, -1e-10, 0.0, -2e-10]), Listed(0, 4), "")
    heights = [y for _, y in line(markup)]
    assert max(heights) - min(heights) > 100


def test_steps_and_sizes_are_drawn():
    markup = charts.by_step(np.array([0.0, -1e-7, -3e-7]), "three")
    assert len(drawn(markup).select("circle.dot")) == 3 and "−3×10⁻⁷" in drawn(markup).get_text()
    markup = charts.log_log([(1.0, 0.2, False), (0.1, 0.002, False), (1e-4, 3.0, True)], "sizes")
    assert [len(drawn(markup).select(f"circle.{css}")) for css in ("dot", "hollow")] == [2, 1]
    dots = [float(dot["cy"]) for dot in drawn(markup).find_all("circle")]
    assert dots[1] > dots[0] > dots[2]


@pytest.mark.parametrize(("power", "text"), [(0, "100 %"), (-2, "1 %"), (-5, "0.001 %"), (-6, "10⁻⁴ %"), (3, "1000 ×")])
def test_shares(power: int, text: str):
    assert numbers.power_as_share(power) == text


@pytest.mark.parametrize(("x", "text"), [(2.5e-5, "2.5×10⁻⁵"), (-5e-7, "−5×10⁻⁷"), (1e-6, "1×10⁻⁶"), (0.25, "0.25")])
def test_ticks_say_all_their_figures(x: float, text: str):
    assert numbers.tick_text(x) == text
