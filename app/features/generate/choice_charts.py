"""Drawings of a choice: the line that the random number falls on, and how the probability adds up along the ranking.

The line is drawn in percent of its own width, so its letters keep their size on every screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from app.render import numbers
from app.render.numbers import brief, count
from app.render.plot import Plot, Scale, px, ticks
from model.runtime.sample import Choice

Floats = NDArray[np.float64]

# Widths of the line in pixels on which a stretch's name must fit, and the class by which narrower screens hide it.
ROOMS = ((320, ""), (620, "roomy"), (1050, "roomier"))
SIGN = 7.4  # about a sign's width


@dataclass(frozen=True)
class Stretch:
    """[low, high) of one token, or of several that are too small to see; `on` is where the number fell."""

    low: float
    high: float
    name: str
    on: bool


def number_line(stretches: Sequence[Stretch], drawn: float | None) -> Markup:
    """The stretches end to end over [0, 1), and the number drawn on them (None where nothing is drawn)."""
    parts = [_stretch(n, s) for n, s in enumerate(stretches)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = "start" if tick == 0 else "end" if tick == 1 else "middle"
        parts.append(f'<text class="foot" x="{100 * tick:g}%" y="74" text-anchor="{anchor}">{tick:g}</text>')
    says = "nothing is drawn: one token holds the whole line"
    if drawn is not None:
        x = f"{100 * drawn:.2f}%"
        anchor = "start" if drawn < 0.15 else "end" if drawn > 0.85 else "middle"
        parts.append(
            f'<line class="mark" x1="{x}" x2="{x}" y1="16" y2="58"/><circle class="end" cx="{x}" cy="18" r="4"/>'
        )
        parts.append(f'<text class="end" x="{x}" y="10" text-anchor="{anchor}">drawn {numbers.fixed(drawn, 4)}</text>')
        here = next((s for s in stretches if s.on), None)
        says = f"the number {numbers.fixed(drawn, 4)} falls on {here.name if here else 'no token'}"
    label = f"The odds of {len(stretches)} stretches end to end from 0 to 1; {says}"
    return Markup(
        f'<svg class="chart number-line" width="100%" height="80" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _stretch(n: int, s: Stretch) -> str:
    width = s.high - s.low
    fill = "on" if s.on else "even" if n % 2 else "odd"
    title = f"{s.name}: {numbers.fixed(s.low, 4)} to {numbers.fixed(s.high, 4)}"
    box = (
        f'<rect class="{fill}" x="{100 * s.low:.2f}%" width="{100 * width:.2f}%" y="26" height="30">'
        f"<title>{escape(title)}</title></rect>"
    )
    needed = SIGN * len(s.name) + 8
    css = next((css for room, css in ROOMS if needed <= width * room), None)
    if css is None:
        return box
    x = f"{100 * (s.low + width / 2):.2f}%"
    return box + f'<text class="{css}" x="{x}" y="45" text-anchor="middle">{escape(s.name)}</text>'


# -- along the ranking


def running_chart(choice: Choice) -> Markup:
    """The share of the first r tokens, r on a logarithmic scale: before and after temperature, after top-k, with the
    place where top-p cuts.
    """
    n = len(choice.order)
    plot = Plot(Scale(0.0, max(math.log10(n), 1e-9), 34, 388), Scale(0.0, 1.0, 158, 12))
    plot.rows((0.0, 0.25, 0.5, 0.75, 1.0), "{:g}".format)
    _ranks(plot, n)
    if choice.settings.temperature != 1:
        _cumulative(plot, "before", np.cumsum(choice.probs[choice.order]))
    _cumulative(plot, "total thin", np.cumsum(choice.tempered[choice.order]))
    if choice.kept_by_k < n:
        _cut_by_k(plot, choice)
    if choice.settings.top_p < 1:
        _cut_by_p(plot, choice)
    label = (
        f"The share of the probability that the first tokens of the ranking have together; "
        f"of {count(n)} tokens {count(choice.kept)} stay"
    )
    return plot.svg(180, label)


def _ranks(plot: Plot, n: int) -> None:
    """The powers of ten under the chart, and the last rank where it lies far from them."""
    feet = [10**power for power in range(math.floor(math.log10(n)) + 1)]
    for rank in (*feet, *([n] if n > 2.6 * feet[-1] else [])):
        at = math.log10(rank)
        plot.text(count(rank), plot.x(at), 174, anchor="end" if plot.x(at) > 380 else "middle")
        plot.notches([at])


def _cumulative(plot: Plot, css: str, totals: Floats) -> None:
    """Totals by rank, thinned out evenly on the logarithmic scale."""
    n = len(totals)
    ranks = np.unique(np.rint(np.logspace(0, math.log10(n), 90)).astype(int).clip(1, n)).tolist()
    plot.curve(css, map(math.log10, ranks), (float(totals[rank - 1]) for rank in ranks))


def _cut_by_k(plot: Plot, choice: Choice) -> None:
    at = math.log10(choice.kept_by_k)
    _cumulative(plot, "total thick", choice.running)
    plot.guide(at, 1.0, "axis")
    anchor, dx = ("end", -4) if plot.x(at) > 300 else ("start", 4)
    plot.text(f"k = {count(choice.kept_by_k)}", plot.x(at) + dx, 151, anchor=anchor)


def _cut_by_p(plot: Plot, choice: Choice) -> None:
    at, p = math.log10(choice.kept), choice.settings.top_p
    x, y = plot.x(at), plot.y(p)
    plot.path("guide", f"M34 {px(y)}H388M{px(x)} {px(y)}V158")
    plot.dot("end", at, float(choice.running[choice.kept - 1]))
    anchor, dx = ("end", -8) if x > 250 else ("start", 8)
    plot.text(f"{count(choice.kept)} stay", x + dx, min(y + 18, 136), css="end", anchor=anchor)


# -- two ways, step by step


def growth(
    xs: Sequence[int],
    first: Sequence[float],
    second: Sequence[float],
    names: tuple[str, str],
    label: str,
    *,
    cut_peaks: bool = False,
) -> Markup:
    """Two quantities step by step: `first` as a solid line, `second` as a dashed one, named at their ends.

    `cut_peaks` is for measured times, where single peaks would dwarf the rest: the scale ends at four medians.
    """
    most = max(*first, *second, 1e-12)
    if cut_peaks:
        most = min(most, max(4 * float(np.median(first)), 4 * float(np.median(second)), 1e-12))
        first, second = [min(v, most) for v in first], [min(v, most) for v in second]
    plot = Plot(Scale(xs[0], xs[-1], 44, 318), Scale(0.0, most, 118, 14))
    plot.rows(plot.y.ticks(3), brief)
    plot.feet((t for t in ticks(xs[0], xs[-1], 4) if float(t).is_integer()), "{:g}".format, below=16)
    for css, values in (("way first", first), ("way second", second)):
        plot.curve(css, xs, values)
        if len(xs) == 1:
            plot.dot(css, xs[0], values[0], r=3)
    ends = _apart(plot.y(first[-1]), plot.y(second[-1]))
    for css, name, end in zip(("way first", "way second"), names, ends, strict=True):
        plot.text(name, 325, end + 4, css=css)
    return plot.svg(140, label)


def _apart(first: float, second: float) -> tuple[float, float]:
    """Where two names stand, in px, so that neither covers the other."""
    if abs(first - second) >= 13:
        return first, second
    middle = min(max((first + second) / 2, 20.0), 112.0)
    down = 6.5 if first >= second else -6.5
    return middle + down, middle - down
