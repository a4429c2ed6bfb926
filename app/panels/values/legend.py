"""The legend of the heat: a histogram of the whole tensor over the same steps, the chosen number's bar marked."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from app.panels.values.summary import Summary
from app.render import numbers
from app.render.heat import STEPS, Scale, css

HIGH, STRIP, LINE = 44, 9, 13
TOP = 13  # room for the chosen number above its bar
BOTTOM = TOP + HIGH + STRIP + LINE + 2
BOTH_SIDES, ONE_SIDE = 13, 24  # width of a bar


def legend(of: Summary, value: float | None) -> Markup:
    """An SVG: bars for how many numbers lie at each step, the steps' colours, and what numbers they stand for."""
    first, last = -STEPS if of.low < 0 else 0, STEPS if of.high > 0 else 0
    steps = range(first, last + 1)
    width = BOTH_SIDES if first and last else ONE_SIDE
    whole = width * len(steps)
    here = None if value is None or not math.isfinite(value) else int(of.scale.steps(np.array([value]))[0])
    most = max(of.counts.values(), default=1)
    parts, texts, dashes, base = [], [], "", TOP + HIGH
    for n, step in enumerate(steps):
        x = n * width
        count = of.counts.get(step, 0)
        height = max(round(HIGH * count / most), 1)
        if count:
            parts.append(_rect("here" if step == here else "count", x + 1, base - height, width - 2, height))
        parts.append(_rect(css(step) or "none", x, base, width, STRIP))
        dashes += f"M{x + width // 2 - 2} {base + STRIP / 2}h4" if step < 0 else ""
        if step == here and value is not None:
            texts.append(_text("here", x + width / 2, base - height - 3, numbers.rough(value), whole))
    parts.append(f'<path class="minus" d="{dashes}"/>' if dashes else "")
    parts += texts + _ticks(of.scale, steps, width, base + STRIP + LINE - 1)
    label = f"How many numbers lie at each depth of colour, from {numbers.rough(of.low)} to {numbers.rough(of.high)}"
    size = f'viewBox="0 0 {whole} {BOTTOM}" width="{whole}" height="{BOTTOM}"'
    return Markup(f'<svg class="legend" {size} role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _ticks(scale: Scale, steps: range, width: int, y: float) -> list[str]:
    """The numbers at the ends, in the middle of each side, and at zero."""
    middle = STEPS // 2
    whole = width * len(steps)
    at = [step for step in (-STEPS, -middle, 0, middle, STEPS) if step in steps]
    if any(len(numbers.rough(scale.edge(step))) > 5 for step in at):  # no room for all
        at = [step for step in at if abs(step) != middle]
    return [_text("", (step - steps.start + 0.5) * width, y, numbers.rough(scale.edge(step)), whole) for step in at]


def _rect(kind: str, x: int, y: int, width: int, height: int) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>'


def _text(kind: str, x: float, y: float, text: str, whole: int) -> str:
    """A text over `x`; near the ends it is pushed inwards, so that it is not cut off."""
    named = f' class="{kind}"' if kind else ""
    if x < 20:
        return f'<text{named} x="0" y="{y:g}">{text}</text>'
    if x > whole - 20:
        return f'<text{named} x="{whole}" y="{y:g}" text-anchor="end">{text}</text>'
    return f'<text{named} x="{x:g}" y="{y:g}" text-anchor="middle">{text}</text>'
