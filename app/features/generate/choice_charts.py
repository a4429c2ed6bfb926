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
from app.render.charts import (
    Scale,
    brief,
    drawing,
    point,
    ticks,
)
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
    x, y = Scale(0.0, max(math.log10(n), 1e-9), 34, 388), Scale(0.0, 1.0, 158, 12)
    before, after = np.cumsum(choice.probs[choice.order]), np.cumsum(choice.tempered[choice.order])
    parts = [
        f'<path class="grid-line" d="M34 {y(t):.1f}H388"/>'
        f'<text x="28" y="{y(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    feet = [10**power for power in range(math.floor(math.log10(n)) + 1)]
    for rank in (*feet, *([n] if n > 2.6 * feet[-1] else [])):
        at = x(math.log10(rank))
        anchor = "end" if at > 380 else "middle"
        parts.append(f'<text x="{at:.1f}" y="174" text-anchor="{anchor}">{numbers.count(rank)}</text>')
        parts.append(f'<path class="grid-line" d="M{at:.1f} 158v4"/>')
    if choice.settings.temperature != 1:
        parts.append(f'<path class="before" d="{_curve(before, x, y)}"/>')
    parts.append(f'<path class="total thin" d="{_curve(after, x, y)}"/>')
    if choice.kept_by_k < n:
        right = x(math.log10(choice.kept_by_k))
        parts.append(f'<path class="total thick" d="{_curve(choice.running, x, y)}"/>')
        parts.append(f'<path class="axis" d="M{right:.1f} 12V158"/>')
        anchor, dx = ("end", -4) if right > 300 else ("start", 4)
        parts.append(
            f'<text x="{right + dx:.1f}" y="151" text-anchor="{anchor}">k = {numbers.count(choice.kept_by_k)}</text>'
        )
    if choice.settings.top_p < 1:
        p, at = y(choice.settings.top_p), x(math.log10(choice.kept))
        parts.append(f'<path class="guide" d="M34 {p:.1f}H388M{at:.1f} {p:.1f}V158"/>')
        parts.append(f'<circle class="end" cx="{at:.1f}" cy="{y(float(choice.running[choice.kept - 1])):.1f}" r="4"/>')
        anchor, dx = ("end", -8) if at > 250 else ("start", 8)
        where = f'x="{at + dx:.1f}" y="{min(p + 18, 136):.1f}" text-anchor="{anchor}"'
        parts.append(f'<text class="end" {where}>{numbers.count(choice.kept)} stay</text>')
    label = (
        f"The share of the probability that the first tokens of the ranking have together; "
        f"of {numbers.count(n)} tokens {numbers.count(choice.kept)} stay"
    )
    return drawing("".join(parts), 180, label)


def _curve(totals: Floats, x: Scale, y: Scale) -> str:
    """Totals by rank, thinned out evenly on the logarithmic scale."""
    n = len(totals)
    ranks = np.unique(np.rint(np.logspace(0, math.log10(n), 90)).astype(int).clip(1, n))
    return "M" + "L".join(point(x(math.log10(r)), y(float(totals[r - 1]))) for r in ranks.tolist())


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
    x, y = Scale(xs[0], xs[-1], 44, 318), Scale(0.0, most, 118, 14)
    parts = [
        f'<path class="grid-line" d="M44 {y(t):.1f}H318"/>'
        f'<text x="38" y="{y(t) + 4:.1f}" text-anchor="end">{brief(t)}</text>'
        for t in ticks(0.0, most, 3)
    ]
    feet = [t for t in ticks(xs[0], xs[-1], 4) if float(t).is_integer()]
    parts += [f'<text x="{x(t):.1f}" y="134" text-anchor="middle">{t:g}</text>' for t in feet]
    ends = []
    for css, values in (("first", first), ("second", second)):
        dots = [point(x(a), y(b)) for a, b in zip(xs, values, strict=True)]
        parts.append(f'<path class="way {css}" d="M{"L".join(dots)}"/>')
        if len(dots) == 1:
            parts.append(f'<circle class="way {css}" cx="{x(xs[0]):.1f}" cy="{y(values[0]):.1f}" r="3"/>')
        ends.append(y(values[-1]))
    if abs(ends[0] - ends[1]) < 13:  # keep the names apart
        middle = min(max((ends[0] + ends[1]) / 2, 20.0), 112.0)
        down = ends[0] >= ends[1]
        ends = [middle + (6.5 if down else -6.5), middle + (-6.5 if down else 6.5)]
    parts += [
        f'<text class="way {css}" x="325" y="{end + 4:.1f}">{escape(name)}</text>'
        for css, name, end in zip(("first", "second"), names, ends, strict=True)
    ]
    return drawing("".join(parts), 140, label)
