"""The charts of learning: the loss along the gradient, what happens step by step, and lengths on a log axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from app.render import numbers
from app.render.numbers import brief, tick_text
from app.render.plot import WIDTH, Plot, Scale, px

HEIGHT = 220
TOP, BOTTOM = 14.0, HEIGHT - 34.0
LABEL = 13.0  # the least distance between two labels


@dataclass(frozen=True)
class Line:
    """One quantity over the steps: `name` stands at its end."""

    name: str
    values: tuple[float, ...]
    css: str


# -- the loss along the gradient


def along_slope(
    etas: Sequence[float],
    losses: Sequence[float],
    chosen: float | None,
    steepness: float,
    link: Callable[[float], str],
    label: str,
) -> Markup:
    """The loss at every η measured, each point a link; the tangent at 0; a guide at the chosen η."""
    measured = {eta: loss for eta, loss in zip(etas, losses, strict=True) if math.isfinite(loss)}
    if not measured:
        return Markup("")
    plot = Plot(Scale(etas[0], etas[-1], 46, WIDTH - 14), _padded(measured.values(), BOTTOM, TOP))
    plot.rows(plot.y.ticks())
    _eta_axis(plot)
    plot.path("axis", f"M{px(plot.x(0))} {px(TOP)}V{px(BOTTOM)}")
    plot.path("tangent", _tangent(plot, losses[etas.index(0.0)], steepness))
    plot.curve("total", etas, losses)
    for eta, loss in measured.items():
        _measured_point(plot, eta, loss, link(eta) if eta > 0 else "")
    if chosen in measured:
        _chosen_point(plot, chosen, measured[chosen])
    return plot.svg(HEIGHT, label, holds_links=True)


def _measured_point(plot: Plot, eta: float, loss: float, href: str) -> None:
    """A point as a link, with room around it for a finger."""
    if not href:
        plot.dot("dot", eta, loss, r=2.5)
        return
    says = f"η {numbers.full(eta, 3)}: loss {brief(loss)}"
    plot.add(f'<a href="{escape(href)}" tabindex="-1" aria-label="{says}"><title>{says}</title>')
    plot.dot("reach", eta, loss, r=7)
    plot.dot("dot", eta, loss, r=2.5)
    plot.add("</a>")


def _chosen_point(plot: Plot, eta: float, loss: float) -> None:
    plot.guide(eta, loss)
    plot.dot("end", eta, loss)
    says = f"η {numbers.full(eta, 3)}: loss {brief(loss)}"
    plot.text(says, plot.x(eta) + 8, plot.y(loss) - 7, css="end")


def _eta_axis(plot: Plot) -> None:
    x, foot = plot.x, HEIGHT - 3
    marks = x.inner_ticks(4, 6)
    plot.feet(marks)
    plot.notches(marks, "axis")
    plot.text("← up the slope", x.start, foot)
    plot.text("down the slope →", x.stop, foot, anchor="end")
    plot.text("η", x(0), foot, anchor="middle")
    plot.base()


def _tangent(plot: Plot, start: float, steepness: float) -> str:
    """The line start − η·steepness as far as it stays in the picture."""
    if not (math.isfinite(start) and math.isfinite(steepness) and steepness > 0):
        return ""
    left = max(plot.x.low, (start - plot.y.high) / steepness)
    right = min(plot.x.high, (start - plot.y.low) / steepness)
    return plot.line((left, right), (start - left * steepness, start - right * steepness))


# -- step by step


def by_step(lines: Sequence[Line], low: float | None, high: float | None, label: str, unit: str = "") -> Markup:
    """Quantities step by step, each named at its end."""
    seen = [value for line in lines for value in line.values if math.isfinite(value)]
    if not seen:
        return Markup("")
    steps = max(len(line.values) for line in lines) - 1
    longest = max(len(line.name) for line in lines)
    bounds = [seen[0] if low is None else low, *seen, *([] if high is None else [high])]
    y = _padded(bounds, BOTTOM, TOP) if low is None else Scale(min(bounds), max(bounds), BOTTOM, TOP)
    plot = Plot(Scale(0, steps, 46, WIDTH - 16 - min(6.4 * longest, 130)), y)
    plot.rows(y.ticks(), lambda tick: tick_text(tick) + unit)
    plot.feet(range(0, steps + 1, max(1, math.ceil(steps / 10))), str)
    plot.text("steps taken", (plot.x.start + plot.x.stop) / 2, HEIGHT - 3, anchor="middle")
    plot.base()
    for line in lines:
        _line_of_steps(plot, line, dotted=steps <= 20 and "total" in line.css)
    _names(plot, lines)
    return plot.svg(HEIGHT, label, holds_links=True)


def _line_of_steps(plot: Plot, line: Line, *, dotted: bool) -> None:
    plot.curve(line.css, range(len(line.values)), line.values)
    for n, value in enumerate(line.values):
        if dotted and math.isfinite(value):
            plot.dot("dot", n, value, r=2.5)


def _names(plot: Plot, lines: Sequence[Line]) -> None:
    """Each line's name beside its last value, moved where two would cover each other."""
    lasts = [(line, next((v for v in reversed(line.values) if math.isfinite(v)), None)) for line in lines]
    ends = [(line, plot.y(last)) for line, last in lasts if last is not None]
    for at, (line, _) in zip(_apart([at for _, at in ends]), ends, strict=True):
        plot.text(line.name, plot.x.stop + 6, at + 4, css="strong" if "total" in line.css else "")


def _padded(values: Iterable[float], start: float, stop: float) -> Scale:
    """A scale with a little room above and below; from 0 where that is near."""
    values = list(values)
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Scale(0.0 if 0 <= low < 0.4 * high else low - room, high + room, start, stop)


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
            parts.append(f'<text x="{at:.2f}%" y="11" text-anchor="{anchor}">{numbers.power_of_ten(power)}</text>')
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
