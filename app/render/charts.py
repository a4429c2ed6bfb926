"""The charts of the why panel: running totals, functions, rows of numbers and how they are spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.render.numbers import brief, power_as_share, tick_text
from app.render.plot import WIDTH, Plot, Scale, px, ticks

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

POINTS = 300  # the most points of a curve
STEPS = 150  # up to this many terms a running total is drawn as the steps it is
BARS = 128  # the most bars; of more terms, neighbours share one that shows their extremes
LETTER = 6.3  # about the width of a figure in px


def decimate(values: Floats, most: int = POINTS) -> Ints:
    """Indices of at most `most` values that keep both ends and, of every stretch, its lowest and its highest."""
    n = len(values)
    if n <= most:
        return np.arange(n)
    edges = np.linspace(0, n, (most - 2) // 2 + 1).astype(np.intp)
    kept = {0, n - 1}
    for start, stop in pairwise(edges.tolist()):
        stretch = values[start:stop]
        kept.update((int(start + stretch.argmin()), int(start + stretch.argmax())))
    return np.array(sorted(kept), dtype=np.intp)


def label_room(*scales: Scale, most: int = 4) -> float:
    """Pixels that the numbers to the left of the scales need."""
    longest = max(len(tick_text(tick)) for scale in scales for tick in scale.ticks(most))
    return max(14 + LETTER * longest, 40)


# -- bars in a table


def signed_bar(x: float, largest: float, width: int = 64) -> Markup:
    """A bar to the right of the middle for +, to the left for −, `largest` filling its half."""
    half = width / 2
    share = min(abs(x) / largest, 1.0) if largest > 0 and math.isfinite(x) else 0.0
    length = max(share * (half - 1), 0.5 if x else 0)
    start, css = (half, "up") if x >= 0 else (half - length, "down")
    bar = f'<rect class="{css}" x="{px(start)}" width="{px(length)}" height="10"/>' if length else ""
    return _mini(f'{bar}<path class="axis" d="M{half:g} 0v10"/>', width)


def share_bar(share: float, width: int = 64) -> Markup:
    """A bar from the left edge, 1 filling it."""
    length = max(min(share, 1.0) * width, 0.5) if share > 0 else 0
    return _mini(f'<rect class="share" width="{px(length)}" height="10"/>', width)


def _mini(inside: str, width: int) -> Markup:
    return Markup(f'<svg class="chart mini" width="{width}" height="10" aria-hidden="true">{inside}</svg>')


# -- the running total


@dataclass(frozen=True)
class Listed:
    """Which of the terms, in the order drawn, the table beside the chart lists: `start` … `stop` − 1."""

    start: int
    stop: int


def running_total(products: Floats, listed: Listed, label: str) -> Markup:
    """The products as bars and their running total as a line, in the order given; the total's end is marked.

    Bars and line share one scale where the bars can be read on it; else the bars get a band of their own below.
    """
    finite = np.nan_to_num(products, nan=0.0, posinf=0.0, neginf=0.0)
    totals = np.cumsum(finite)
    low, high = float(min(totals.min(), 0.0)), float(max(totals.max(), 0.0))
    smallest, largest = float(min(finite.min(), 0.0)), float(max(finite.max(), 0.0))
    together = (largest - smallest) * 10 >= high - low
    if together:
        low, high = min(low, smallest), max(high, largest)
    y = Scale(low, high if high > low else low + 1, 158.0 if together else 100.0, 8)
    bars_y = y if together else Scale(smallest, largest, 162, 114)
    right = max(len(brief(float(totals[-1]))), 4)
    x = Scale(0, len(finite), label_room(y, bars_y), WIDTH - 12 - 7.2 * right)
    plot, bars = Plot(x, y), Plot(x, bars_y)
    _rows_and_zero(plot)
    if not together:
        _rows_and_zero(bars, most=1)
    _bars(bars, finite, listed)
    plot.marks += bars.marks
    plot.path("total", _staircase(totals, plot))
    _end(plot, len(finite), float(totals[-1]))
    _bracket(plot, listed, len(finite))
    return plot.svg(190, label)


def _rows_and_zero(plot: Plot, most: int = 4) -> None:
    plot.rows(sorted({0.0, *plot.y.ticks(most)}), zero="axis")


def _bars(plot: Plot, products: Floats, listed: Listed) -> None:
    """One path for each of: positive and negative, listed and not. Many terms share a bar: their extremes are drawn."""
    paths = {"up": "", "down": "", "up faint": "", "down faint": ""}
    for start, stop in stretches(len(products)):
        faint = "" if start < listed.stop and stop > listed.start else " faint"
        for css, extreme in (("up", products[start:stop].max()), ("down", products[start:stop].min())):
            paths[css + faint] += _bar(plot, start, stop, float(extreme)) if (extreme > 0) == (css == "up") else ""
    _strokes(plot, paths, len(products))


def stretches(n: int) -> list[tuple[int, int]]:
    """`n` places as one stretch each, or as BARS stretches of neighbours."""
    return list(pairwise(np.linspace(0, n, min(n, BARS) + 1).astype(np.intp).tolist()))


def _bar(plot: Plot, start: int, stop: int, height: float) -> str:
    """A bar from zero as a stroke of a path: a third of the bytes of a rectangle."""
    middle = (plot.x(start) + plot.x(stop)) / 2
    return f"M{px(middle)} {plot.y(0):.0f}V{px(plot.y(height))}" if height else ""


def _strokes(plot: Plot, paths: dict[str, str], n: int) -> None:
    width = (plot.x.stop - plot.x.start) / min(n, BARS) * (0.72 if n <= BARS else 1)
    for css, d in paths.items():
        plot.path(css, d, stroke=width)


def _staircase(totals: Floats, plot: Plot) -> str:
    """Steps while each can be seen, else a line through the extremes of every stretch."""
    if len(totals) > STEPS:
        kept = decimate(totals).tolist()
        return plot.line([0, *(n + 1 for n in kept)], [0.0, *(float(totals[n]) for n in kept)])
    steps = (f"V{px(plot.y(float(t)))}H{px(plot.x(n + 1))}" for n, t in enumerate(totals))
    return plot.line([0], [0.0]) + "".join(steps)


def _end(plot: Plot, x: float, total: float) -> None:
    """The last point, marked and said."""
    plot.dot("end", x, total, r=3.5)
    plot.text(brief(total), plot.x(x) + 7, plot.y(total) + 4, css="end")


def _bracket(plot: Plot, listed: Listed, n: int) -> None:
    """Under the bars: which of them the table lists."""
    shown = listed.stop - listed.start
    if shown >= n:
        return
    left, right = plot.x(listed.start), plot.x(listed.stop)
    plot.path("axis", f"M{px(left)} 168v4H{px(max(right, left + 1))}v-4")
    anchor, at = ("start", left) if left < 250 else ("end", right)
    plot.text(f"the {shown} listed", at, 185, anchor=anchor)
    before, after = left - plot.x(0), plot.x(n) - right
    if max(before, after) > 150:
        middle = (right + plot.x(n)) / 2 if before < after else (plot.x(0) + left) / 2
        plot.text(f"the other {n - shown:,}", middle, 185, anchor="middle")


# -- a function with the number's point on it


def curve(
    f: Callable[[float], float], at: float, low: float, high: float, *, label: str, says: str, side: str = "left"
) -> Markup:
    """A function from `low` to `high` (widened to hold `at`), the point (at, f(at)) marked.

    `says` stands in the corner on `side`, where the curve leaves room.
    """
    low, high, here = min(low, at), max(high, at), f(at)
    xs = [float(x) for x in np.linspace(low, high, 81)]
    ys = [f(x) for x in xs]
    plot = Plot(Scale(low, high, 40, 388), Scale(min(*ys, 0.0), max(*ys, 0.0), 118, 14))
    _rows_and_zero(plot, most=3)
    feet = plot.x.inner_ticks(6, 4)
    plot.feet(feet, below=16)
    plot.notches(feet)
    plot.path("guide", f"M{px(plot.x(at))} {px(plot.y.start)}V{px(plot.y(here))}H{px(plot.x.start)}")
    plot.curve("total", xs, ys)
    plot.dot("end", at, here)
    corner, anchor = (plot.x.start + 10, "start") if side == "left" else (plot.x.stop, "end")
    plot.text(says, corner, 24, css="end", anchor=anchor)
    return plot.svg(150, label)


# -- a row of numbers, one of them meant


def strip(row: Floats, mark: int, label: str) -> Markup:
    """Every number of a row as a thin bar up or down, the one at `mark` in the accent."""
    most = float(np.abs(row).max()) or 1.0
    plot = Plot(Scale(0, len(row), 0, WIDTH), Scale(-most, most, 58, 2))
    paths = {"up": "", "down": ""}
    for start, stop in stretches(len(row)):
        paths["up"] += _bar(plot, start, stop, max(float(row[start:stop].max()), 0.0))
        paths["down"] += _bar(plot, start, stop, min(float(row[start:stop].min()), 0.0))
    _strokes(plot, paths, len(row))
    plot.across("axis", 0)
    plot.path("mark", f"M{px(plot.x(mark + 0.5))} 0V60")
    return plot.svg(60, label)


# -- how numbers are spread


def spread(values: Floats, middle: float, width: float, mark: float | None, label: str) -> Markup:
    """How many numbers lie where; `middle` and `middle` ± `width` as lines, one number marked."""
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(high - low) or high <= low:
        return Markup("")
    counts, edges = np.histogram(values, bins=min(48, 4 + len(values) // 4))
    plot = Plot(Scale(low, high, 8, WIDTH - 8), Scale(0, float(counts.max()), 66, 6))
    middles = [float(a + b) / 2 for a, b in pairwise(edges)]
    bars = (f"M{px(plot.x(at))} 66V{px(plot.y(float(n)))}" for at, n in zip(middles, counts, strict=True) if n)
    plot.path("count", "".join(bars), stroke=0.86 * (plot.x.stop - plot.x.start) / len(counts))
    plot.path("axis", f"M{px(plot.x.start)} 66.5H{px(plot.x.stop)}")
    for at, css in ((middle - width, "guide"), (middle, "total"), (middle + width, "guide"), (mark, "mark")):
        if at is not None and (low <= at <= high or css == "mark"):
            plot.path(css, f"M{px(plot.x(at))} 2V70")
    if mark is not None:
        plot.dot("end", mark, 0, r=3)
    plot.feet(plot.x.inner_ticks(6, 8), below=18)
    return plot.svg(90, label)


# -- a number step by step


def by_step(values: Floats, label: str) -> Markup:
    """Values after 0, 1, … steps as a line, the last one marked and said."""
    low, high, last = float(min(values.min(), 0.0)), float(max(values.max(), 0.0)), len(values) - 1
    y = Scale(low, high or (low == 0) * 1.0, 104, 10)
    right = max(len(brief(float(values[-1]))), 4)
    plot = Plot(Scale(0, last, label_room(y, most=3), WIDTH - 14 - 7.2 * right), y)
    _rows_and_zero(plot, most=3)
    plot.curve("total", range(len(values)), map(float, values))
    for n, value in enumerate(values) if len(values) < 30 else ():
        plot.dot("dot", n, float(value), r=2)
    _end(plot, last, float(values[-1]))
    plot.feet((n for n in ticks(0, last, 6) if float(n).is_integer()), "{:g}".format, below=18)
    plot.text("steps", plot.x.stop + 7, 122)
    return plot.svg(128, label)


# -- sizes against sizes


def log_log(points: Sequence[tuple[float, float, bool]], label: str) -> Markup:
    """Shares against distances on log axes: (distance, share, whether it is drawn hollow)."""
    logs = [(math.log10(h), math.log10(share), hollow) for h, share, hollow in points]
    hs, shares = [h for h, _, _ in logs], [share for _, share, _ in logs]
    x = Scale(min(hs) - 0.3, max(hs) + 0.3, 52, WIDTH - 12)
    y = Scale(math.floor(min(shares)), math.ceil(max(shares)) or 1.0, 126, 12)
    plot = Plot(x, y)
    every = max(1, round((y.high - y.low) / 4))
    plot.rows(range(int(y.low), int(y.high) + 1, every), lambda power: power_as_share(int(power)))
    feet = range(math.ceil(x.low), math.floor(x.high) + 1)
    plot.notches(feet)
    plot.feet(feet, lambda power: tick_text(10.0**power).removeprefix("1×"))
    _joined(plot, logs)
    plot.text("h, the size of the nudge", x.stop, y.start + 31, anchor="end")
    return plot.svg(162, label)


def _joined(plot: Plot, logs: Iterable[tuple[float, float, bool]]) -> None:
    """The points from left to right, and the line between them under them."""
    line = sorted((h, share) for h, share, _ in logs)
    plot.curve("axis", [h for h, _ in line], [share for _, share in line])
    for h, share, hollow in logs:
        plot.dot("hollow" if hollow else "dot", h, share, r=3.5)
