"""The charts of learning: the loss along the slope, what happens step by step, and lengths on a log axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from app.render import numbers
from app.render.charts import (
    Scale,
    brief,
    point,
    tick_text,
    ticks,
)

WIDTH, HEIGHT = 400, 220
TOP, BOTTOM = 14.0, HEIGHT - 34.0
LABEL = 13.0  # the least distance between two labels


@dataclass(frozen=True)
class Line:
    """One quantity over the steps: `name` stands at its end."""

    name: str
    values: tuple[float, ...]
    css: str


def frame(inside: str, label: str) -> Markup:
    """A chart that holds links: a group, since what an image holds cannot be reached."""
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="group" '
        f'aria-label="{escape(label)}">{inside}</svg>'
    )


def along_slope(
    etas: Sequence[float],
    losses: Sequence[float],
    chosen: float | None,
    steepness: float,
    link: Callable[[float], str],
    label: str,
) -> Markup:
    """The loss at every η measured, each point a link; the tangent at 0; a guide at the chosen η."""
    x = Scale(etas[0], etas[-1], 46, WIDTH - 14)
    seen = [loss for loss in losses if math.isfinite(loss)]
    if not seen:
        return Markup("")
    y = _padded(seen, BOTTOM, TOP)
    start = losses[etas.index(0.0)]
    parts = [_rows(y, x), _columns(x, "η")]
    parts.append(f'<path class="axis" d="M{x(0):.1f} {TOP}V{BOTTOM}"/>')
    parts.append(_tangent(x, y, start, steepness))
    parts += [f'<path class="total" d="{_path(x, y, etas, losses)}"/>']
    for eta, loss in zip(etas, losses, strict=True):
        if not math.isfinite(loss):
            continue
        dot = f'<circle class="dot" cx="{x(eta):.1f}" cy="{y(loss):.1f}" r="2.5"/>'
        if eta > 0 and link(eta):
            says = f"η {numbers.full(eta, 3)}: loss {brief(loss)}"
            reach = f'<circle class="reach" cx="{x(eta):.1f}" cy="{y(loss):.1f}" r="7"/>'
            to = f'href="{escape(link(eta))}" tabindex="-1" aria-label="{says}"'
            dot = f"<a {to}><title>{says}</title>{reach}{dot}</a>"
        parts.append(dot)
    if chosen is not None and chosen in etas and math.isfinite(loss := losses[etas.index(chosen)]):
        parts.append(
            f'<path class="guide" d="M{x(chosen):.1f} {BOTTOM}V{y(loss):.1f}"/>'
            f'<circle class="end" cx="{x(chosen):.1f}" cy="{y(loss):.1f}" r="4"/>'
            f'<text class="end" x="{x(chosen) + 8:.1f}" y="{y(loss) - 7:.1f}">η {numbers.full(chosen, 3)}: '
            f"loss {brief(loss)}</text>"
        )
    return frame("".join(parts), label)


def by_step(lines: Sequence[Line], low: float | None, high: float | None, label: str, unit: str = "") -> Markup:
    """Quantities step by step, each named at its end."""
    seen = [value for line in lines for value in line.values if math.isfinite(value)]
    if not seen:
        return Markup("")
    steps = max(len(line.values) for line in lines) - 1
    longest = max(len(line.name) for line in lines)
    x = Scale(0, steps, 46, WIDTH - 16 - min(6.4 * longest, 130))
    bounds = [seen[0] if low is None else low, *seen, *([] if high is None else [high])]
    y = _padded(bounds, BOTTOM, TOP) if low is None else Scale(min(bounds), max(bounds), BOTTOM, TOP)
    parts = [_rows(y, x, unit), _steps(x, steps)]
    ends = []
    for line in lines:
        parts.append(f'<path class="{line.css}" d="{_path(x, y, range(len(line.values)), line.values)}"/>')
        if steps <= 20 and "total" in line.css:
            parts += [
                f'<circle class="dot" cx="{x(n):.1f}" cy="{y(value):.1f}" r="2.5"/>'
                for n, value in enumerate(line.values)
                if math.isfinite(value)
            ]
        last = next((value for value in reversed(line.values) if math.isfinite(value)), None)
        if last is not None:
            ends.append((y(last), line))
    for at, (_, line) in zip(_apart([at for at, _ in ends]), ends, strict=True):
        css = ' class="strong"' if "total" in line.css else ""
        parts.append(f'<text{css} x="{x.stop + 6:.1f}" y="{at + 4:.1f}">{escape(line.name)}</text>')
    return frame("".join(parts), label)


def _padded(values: Sequence[float], start: float, stop: float) -> Scale:
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Scale(0.0 if 0 <= low < 0.4 * high else low - room, high + room, start, stop)


def _rows(y: Scale, x: Scale, unit: str = "") -> str:
    return "".join(
        f'<path class="grid-line" d="M{x.start:g} {y(tick):.1f}H{x.stop:.1f}"/>'
        f'<text x="{x.start - 6:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick_text(tick)}{unit}</text>'
        for tick in ticks(y.low, y.high, 4)
    )


def _columns(x: Scale, name: str) -> str:
    marks = ticks(x.low, x.high, 4)
    feet = "".join(
        f'<text x="{x(tick):.1f}" y="{BOTTOM + 17:.1f}" text-anchor="middle">{tick_text(tick)}</text>'
        f'<path class="axis" d="M{x(tick):.1f} {BOTTOM}v4"/>'
        for tick in marks
        if x.start + 6 < x(tick) < x.stop - 6
    )
    ends = (
        f'<text x="{x.start:g}" y="{HEIGHT - 3}">← up the slope</text>'
        f'<text x="{x.stop:g}" y="{HEIGHT - 3}" text-anchor="end">down the slope →</text>'
        f'<text x="{x(0):.1f}" y="{HEIGHT - 3}" text-anchor="middle">{name}</text>'
    )
    return f'{feet}{ends}<path class="axis" d="M{x.start:g} {BOTTOM}H{x.stop:g}"/>'


def _steps(x: Scale, steps: int) -> str:
    every = max(1, math.ceil(steps / 10))
    feet = "".join(
        f'<text x="{x(n):.1f}" y="{BOTTOM + 17:.1f}" text-anchor="middle">{n}</text>'
        for n in range(0, steps + 1, every)
    )
    name = f'<text x="{(x.start + x.stop) / 2:.1f}" y="{HEIGHT - 3}" text-anchor="middle">steps taken</text>'
    return f'{feet}{name}<path class="axis" d="M{x.start:g} {BOTTOM}H{x.stop:.1f}"/>'


def _path(x: Scale, y: Scale, xs: Sequence[float], ys: Sequence[float]) -> str:
    """A line through the finite points, broken where there is none."""
    d, pen = "", "M"
    for a, b in zip(xs, ys, strict=True):
        if math.isfinite(b):
            d, pen = f"{d}{pen}{point(x(a), y(b))}", "L"
        else:
            pen = "M"
    return d


def _tangent(x: Scale, y: Scale, start: float, steepness: float) -> str:
    """The line start − η·steepness as far as it stays in the picture."""
    if not (math.isfinite(start) and math.isfinite(steepness) and steepness > 0):
        return ""
    left, right = max(x.low, (start - y.high) / steepness), min(x.high, (start - y.low) / steepness)
    ends = [(eta, start - eta * steepness) for eta in (left, right)]
    return f'<path class="tangent" d="M{"L".join(point(x(a), y(b)) for a, b in ends)}"/>'


def _apart(places: Sequence[float]) -> list[float]:
    """The same places in their order, moved so that no two are closer than a label is high, inside the frame."""
    order = sorted(range(len(places)), key=lambda n: places[n])
    found = [places[n] for n in order]
    for a, b in pairwise(range(len(found))):
        found[b] = max(found[b], found[a] + LABEL)
    over = max(0.0, found[-1] - BOTTOM) if found else 0.0
    if over:
        found[-1] -= over
        for b, a in pairwise(reversed(range(len(found)))):
            found[a] = min(found[a], found[b] - LABEL)
    result = [0.0] * len(places)
    for n, at in zip(order, found, strict=True):
        result[n] = at
    return result


# -- lengths on a log axis


@dataclass(frozen=True)
class LogAxis:
    """Whole powers of ten from `low` to `high`."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Sequence[float]) -> LogAxis:
        """The axis that holds all sizes above zero, at most twelve powers below the largest."""
        seen = [value for value in values if 0 < value < math.inf]
        if not seen:
            return cls(-1, 0)
        high = math.ceil(math.log10(max(seen)) + 1e-9)
        low = max(math.floor(math.log10(min(seen)) - 1e-9), high - 12)
        return cls(min(low, high - 1), high)

    def share(self, x: float) -> float:
        """Where x lies, in percent of the axis."""
        if not x > 0:
            return 0.0
        return round(100 * min(max((math.log10(x) - self.low) / (self.high - self.low), 0.0), 1.0), 2)

    @property
    def every(self) -> list[int]:
        """The powers that are marked."""
        step = max(1, math.ceil((self.high - self.low) / 5))
        return list(range(self.low, self.high + 1, step))

    def head(self) -> Markup:
        """The powers of ten above the bars."""
        parts = []
        for power in self.every:
            at = 100 * (power - self.low) / (self.high - self.low)
            anchor = "start" if at < 4 else "end" if at > 96 else "middle"
            parts.append(f'<text x="{at:.2f}%" y="11" text-anchor="{anchor}">{power_text(power)}</text>')
        return Markup(f'<svg class="chart log" width="100%" height="15" aria-hidden="true">{"".join(parts)}</svg>')

    def bars(self, *sizes: float) -> Markup:
        """One thin bar for each size, the last one darkest."""
        thick = 12 / len(sizes)
        lines = "".join(
            f'<line class="grid-line" x1="{at:.2f}%" x2="{at:.2f}%" y2="16"/>'
            for at in (100 * (power - self.low) / (self.high - self.low) for power in self.every)
        )
        bars = "".join(
            f'<rect class="{"share" if n == len(sizes) - 1 else "share faint"}" y="{2 + n * thick:.1f}" '
            f'width="{self.share(size):g}%" height="{thick - 1:.1f}"/>'
            for n, size in enumerate(sizes)
        )
        return Markup(f'<svg class="chart log" width="100%" height="16" aria-hidden="true">{lines}{bars}</svg>')


def power_text(power: int) -> str:
    """10⁻³, and 1 and 10 as they are."""
    return {0: "1", 1: "10"}.get(power, f"10{numbers.superscript(power)}")
