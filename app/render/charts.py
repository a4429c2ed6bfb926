"""Small charts as SVG: geometry in attributes, colour in classes, so they follow the theme and a strict policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from app.render.numbers import MINUS, scientific, superscript

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

POINTS = 300  # the most points of a curve
STEPS = 150  # up to this many terms a running total is drawn as the steps it is
BARS = 128  # the most bars; of more terms, neighbours share one that shows their extremes
WIDTH = 400


# -- scales


@dataclass(frozen=True)
class Scale:
    """Data from `low` to `high` laid onto pixels from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, x: float) -> float:
        share = (x - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.stop - self.start)


def ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Round numbers from `low` to `high`, at most about `most` of them."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(x: float) -> str:
    """A tick's label: no more figures than it needs."""
    if x == 0:
        return "0"
    if 1e-4 <= abs(x) < 1e5:
        return f"{x:.5f}".rstrip("0").rstrip(".").replace("-", MINUS)
    return scientific(x, 1).replace(".0×", "×")


def brief(x: float) -> str:
    """A number in three figures: 4.04, 0.0388, 1200."""
    if x == 0 or 1e-3 <= abs(x) < 1e5:
        return f"{float(f'{x:.3g}'):.6g}".replace("-", MINUS)
    return tick_text(x)


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


def point(x: float, y: float) -> str:
    return f"{x:.1f} {y:.1f}"


def drawing(inside: str, height: int, label: str) -> Markup:
    """A whole chart; `label` says in words what it shows."""
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape(label)}">{inside}</svg>'
    )


# -- bars in a table


def signed_bar(x: float, largest: float, width: int = 64) -> Markup:
    """A bar to the right of the middle for +, to the left for −, `largest` filling its half."""
    half = width / 2
    share = min(abs(x) / largest, 1.0) if largest > 0 and math.isfinite(x) else 0.0
    length = max(share * (half - 1), 0.5 if x else 0)
    start, css = (half, "up") if x >= 0 else (half - length, "down")
    bar = f'<rect class="{css}" x="{start:.1f}" width="{length:.1f}" height="10"/>' if length else ""
    return Markup(
        f'<svg class="chart mini" width="{width}" height="10" aria-hidden="true">{bar}'
        f'<path class="axis" d="M{half:g} 0v10"/></svg>'
    )


def share_bar(share: float, width: int = 64) -> Markup:
    """A bar from the left edge, 1 filling it."""
    length = max(min(share, 1.0) * width, 0.5) if share > 0 else 0
    return Markup(
        f'<svg class="chart mini" width="{width}" height="10" aria-hidden="true">'
        f'<rect class="share" width="{length:.1f}" height="10"/></svg>'
    )


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
    line_bottom = 158.0 if together else 100.0
    y = Scale(low, high if high > low else low + 1, line_bottom, 8)
    bars_y = y if together else Scale(smallest, largest, 162, 114)
    left = max(len(tick_text(tick)) for scale in (y, bars_y) for tick in ticks(scale.low, scale.high))
    right = len(brief(float(totals[-1])))
    x = Scale(0, len(finite), max(14 + 6.3 * left, 40), WIDTH - 12 - 7.2 * max(right, 4))
    parts = [_ticks(y, x), _bars(finite, listed, x, bars_y), _line(totals, x, y)]
    if not together:
        parts.insert(1, _ticks(bars_y, x, most=1))
    parts += [_end(float(totals[-1]), x, y), _marks(listed, len(finite), x)]
    return drawing("".join(parts), 190, label)


def _ticks(y: Scale, x: Scale, most: int = 4) -> str:
    found = []
    for tick in sorted({0.0, *ticks(y.low, y.high, most)}):
        css = "axis" if tick == 0 else "grid-line"
        found.append(
            f'<path class="{css}" d="M{x.start:g} {y(tick):.1f}H{x.stop:g}"/>'
            f'<text x="{x.start - 6:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick_text(tick)}</text>'
        )
    return "".join(found)


def _bars(products: Floats, listed: Listed, x: Scale, y: Scale) -> str:
    """One path for each of: positive and negative, listed and not. Many terms share a bar: their extremes are drawn."""
    paths = {"up": "", "down": "", "up faint": "", "down faint": ""}
    for start, stop in stretches(len(products)):
        faint = "" if start < listed.stop and stop > listed.start else " faint"
        for css, extreme in (("up", products[start:stop].max()), ("down", products[start:stop].min())):
            paths[css + faint] += _bar(float(extreme), x(start), x(stop), y) if (extreme > 0) == (css == "up") else ""
    width = (x.stop - x.start) / min(len(products), BARS) * (0.72 if len(products) <= BARS else 1)
    return _strokes(paths, width)


def stretches(n: int) -> list[tuple[int, int]]:
    """`n` places as one stretch each, or as BARS stretches of neighbours."""
    return list(pairwise(np.linspace(0, n, min(n, BARS) + 1).astype(np.intp).tolist()))


def _bar(height: float, left: float, right: float, y: Scale) -> str:
    """A bar from zero as a stroke of a path: a third of the bytes of a rectangle."""
    return f"M{(left + right) / 2:.1f} {y(0):.0f}V{y(height):.1f}" if height else ""


def _strokes(paths: dict[str, str], width: float) -> str:
    return "".join(f'<path class="{css}" stroke-width="{width:.1f}" d="{d}"/>' for css, d in paths.items() if d)


def _line(totals: Floats, x: Scale, y: Scale) -> str:
    """Steps while each can be seen, else a line through the extremes of every stretch."""
    start = f"M{point(x(0), y(0))}"
    if len(totals) <= STEPS:
        d = start + "".join(f"V{y(float(t)):.1f}H{x(n + 1):.1f}" for n, t in enumerate(totals))
    else:
        d = start + "".join(f"L{point(x(n + 1), y(float(totals[n])))}" for n in decimate(totals).tolist())
    return f'<path class="total" d="{d}"/>'


def _end(total: float, x: Scale, y: Scale) -> str:
    return (
        f'<circle class="end" cx="{x.stop:g}" cy="{y(total):.1f}" r="3.5"/>'
        f'<text class="end" x="{x.stop + 7:g}" y="{y(total) + 4:.1f}">{brief(total)}</text>'
    )


def _marks(listed: Listed, n: int, x: Scale) -> str:
    """Under the bars: which of them the table lists."""
    shown = listed.stop - listed.start
    if shown >= n:
        return ""
    left, right = x(listed.start), x(listed.stop)
    bracket = f'<path class="axis" d="M{left:.1f} 168v4H{max(right, left + 1):.1f}v-4"/>'
    anchor, at = ("start", left) if left < 250 else ("end", right)
    text = f'<text x="{at:.1f}" y="185" text-anchor="{anchor}">the {shown} listed</text>'
    other_left, other_right = (right, x(n)) if left - x(0) < x(n) - right else (x(0), left)
    middle, room = (other_left + other_right) / 2, other_right - other_left
    other = f'<text x="{middle:.1f}" y="185" text-anchor="middle">the other {n - shown:,}</text>' if room > 150 else ""
    return bracket + text + other


# -- a function with the number's point on it


def curve(
    f: Callable[[float], float], at: float, low: float, high: float, *, label: str, says: str, side: str = "left"
) -> Markup:
    """A function from `low` to `high` (widened to hold `at`), the point (at, f(at)) marked.

    `says` stands in the corner on `side`, where the curve leaves room.
    """
    low, high = min(low, at), max(high, at)
    xs = np.linspace(low, high, 81)
    ys = [f(float(x)) for x in xs]
    x = Scale(low, high, 40, 388)
    y = Scale(min(*ys, 0.0), max(*ys, 0.0), 118, 14)
    d = "M" + "L".join(point(x(float(a)), y(b)) for a, b in zip(xs, ys, strict=True))
    here = f(at)
    corner, anchor = (x.start + 10, "start") if side == "left" else (x.stop, "end")
    bottom = y.start
    inside = (
        f"{_ticks(y, x, most=3)}{_feet(x, bottom)}"
        f'<path class="guide" d="M{x(at):.1f} {bottom:.1f}V{y(here):.1f}H{x.start:g}"/><path class="total" d="{d}"/>'
        f'<circle class="end" cx="{x(at):.1f}" cy="{y(here):.1f}" r="4"/>'
        f'<text class="end" x="{corner:g}" y="24" text-anchor="{anchor}">{escape(says)}</text>'
    )
    return drawing(inside, 150, label)


def _feet(x: Scale, bottom: float) -> str:
    marks = [tick for tick in ticks(x.low, x.high, 6) if x.start + 4 < x(tick) < x.stop - 4]
    feet = "".join(
        f'<text x="{x(tick):.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{tick_text(tick)}</text>' for tick in marks
    )
    return feet + "".join(f'<path class="grid-line" d="M{x(tick):.1f} {bottom:.1f}v4"/>' for tick in marks)


# -- a row of numbers, one of them meant


def strip(row: Floats, mark: int, label: str) -> Markup:
    """Every number of a row as a thin bar up or down, the one at `mark` in the accent."""
    most = float(np.abs(row).max()) or 1.0
    x, y = Scale(0, len(row), 0, WIDTH), Scale(-most, most, 58, 2)
    paths = {"up": "", "down": ""}
    for start, stop in stretches(len(row)):
        paths["up"] += _bar(max(float(row[start:stop].max()), 0.0), x(start), x(stop), y)
        paths["down"] += _bar(min(float(row[start:stop].min()), 0.0), x(start), x(stop), y)
    width = WIDTH / min(len(row), BARS) * (0.72 if len(row) <= BARS else 1)
    middle = x(mark + 0.5)
    inside = (
        f'{_strokes(paths, width)}<path class="axis" d="M0 {y(0):.1f}H{WIDTH}"/>'
        f'<path class="mark" d="M{middle:.1f} 0V60"/>'
    )
    return drawing(inside, 60, label)


# -- how numbers are spread


def spread(values: Floats, middle: float, width: float, mark: float | None, label: str) -> Markup:
    """How many numbers lie where; `middle` and `middle` ± `width` as lines, one number marked."""
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(high - low) or high <= low:
        return Markup("")
    counts, edges = np.histogram(values, bins=min(48, 4 + len(values) // 4))
    x, y = Scale(low, high, 8, WIDTH - 8), Scale(0, float(counts.max()), 66, 6)
    bars = "".join(
        f"M{x(float(a + b) / 2):.1f} 66V{y(float(n)):.1f}"
        for n, (a, b) in zip(counts, pairwise(edges), strict=True)
        if n
    )
    places = [(p, css) for p, css in ((middle - width, "guide"), (middle, "total"), (middle + width, "guide"))]
    lines = "".join(f'<path class="{css}" d="M{x(p):.1f} 2V70"/>' for p, css in places if low <= p <= high)
    here = (
        f'<path class="mark" d="M{x(mark):.1f} 2V70"/><circle class="end" cx="{x(mark):.1f}" cy="66" r="3"/>'
        if mark is not None
        else ""
    )
    feet = "".join(
        f'<text x="{x(tick):.1f}" y="84" text-anchor="middle">{tick_text(tick)}</text>'
        for tick in ticks(low, high, 6)
        if x.start + 8 < x(tick) < x.stop - 8
    )
    stroke = 0.86 * (x.stop - x.start) / len(counts)
    axis = f'<path class="axis" d="M{x.start} 66.5H{x.stop}"/>'
    return drawing(f'<path class="count" stroke-width="{stroke:.1f}" d="{bars}"/>{axis}{lines}{here}{feet}', 90, label)


def largest(values: Sequence[float]) -> float:
    """The largest size among finite numbers, 0 where there is none."""
    return max((abs(x) for x in values if math.isfinite(x)), default=0.0)


# -- a number step by step


def by_step(values: Floats, label: str) -> Markup:
    """Values after 0, 1, … steps as a line, the last one marked and said."""
    low, high = float(min(values.min(), 0.0)), float(max(values.max(), 0.0))
    y = Scale(low, high or (low == 0) * 1.0, 104, 10)
    left = max(len(tick_text(tick)) for tick in ticks(y.low, y.high, 3))
    right = max(len(brief(float(values[-1]))), 4)
    x = Scale(0, len(values) - 1, max(14 + 6.3 * left, 40), WIDTH - 14 - 7.2 * right)
    d = "M" + "L".join(point(x(n), y(float(v))) for n, v in enumerate(values))
    dots = "".join(
        f'<circle class="dot" cx="{x(n):.1f}" cy="{y(float(v)):.1f}" r="2"/>'
        for n, v in enumerate(values)
        if len(values) < 30
    )
    marks = [n for n in ticks(0, len(values) - 1, 6) if float(n).is_integer()]
    feet = "".join(f'<text x="{x(n):.1f}" y="122" text-anchor="middle">{n:g}</text>' for n in marks)
    name = f'<text x="{x.stop + 7:g}" y="122">steps</text>'
    return drawing(
        f'{_ticks(y, x, most=3)}<path class="total" d="{d}"/>{dots}{_end(float(values[-1]), x, y)}{feet}{name}',
        128,
        label,
    )


# -- sizes against sizes


def log_log(points: Sequence[tuple[float, float, bool]], label: str) -> Markup:
    """Shares against distances on log axes: (distance, share, whether it is drawn hollow)."""
    hs, errors = [math.log10(h) for h, _, _ in points], [math.log10(e) for _, e, _ in points]
    x = Scale(min(hs) - 0.3, max(hs) + 0.3, 52, WIDTH - 12)
    y = Scale(math.floor(min(errors)), math.ceil(max(errors)) or 1.0, 126, 12)
    every = max(1, round((y.high - y.low) / 4))
    parts = []
    for power in range(int(y.low), int(y.high) + 1, every):
        parts.append(
            f'<path class="grid-line" d="M{x.start:g} {y(power):.1f}H{x.stop:g}"/>'
            f'<text x="{x.start - 6:g}" y="{y(power) + 4:.1f}" text-anchor="end">{share_text(power)}</text>'
        )
    for power in range(math.ceil(x.low), math.floor(x.high) + 1):
        parts.append(f'<path class="grid-line" d="M{x(power):.1f} {y.start:g}v4"/>')
        text = tick_text(10.0**power).removeprefix("1×")
        parts.append(f'<text x="{x(power):.1f}" y="{y.start + 17:g}" text-anchor="middle">{text}</text>')
    line = sorted(zip(hs, errors, strict=True))
    parts.append('<path class="axis" d="M' + "L".join(point(x(h), y(e)) for h, e in line) + '"/>')
    for h, e, (_, _, hollow) in zip(hs, errors, points, strict=True):
        parts.append(f'<circle class="{"hollow" if hollow else "dot"}" cx="{x(h):.1f}" cy="{y(e):.1f}" r="3.5"/>')
    parts.append(f'<text x="{x.stop:g}" y="{y.start + 31:g}" text-anchor="end">h, the size of the nudge</text>')
    return drawing("".join(parts), 162, label)


def share_text(power: int) -> str:
    """A power of ten as a share: 100 %, 0.1 %, 10⁻⁵ %; from 1000 % on as times."""
    if power > 1:
        return f"{tick_text(10.0**power)} ×"
    percent = power + 2
    return f"{10.0**percent:.{max(-percent, 0)}f} %" if percent >= -3 else f"10{superscript(percent)} %"
