"""One way to draw a chart: two scales, and marks collected in the order drawn, as SVG.

Geometry stands in attributes and colour in classes, so charts follow the theme and a strict content policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from app.render.numbers import tick_text

WIDTH = 400


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

    def ticks(self, most: int = 4) -> list[float]:
        """Round numbers on the scale, at most about `most` of them."""
        return ticks(self.low, self.high, most)

    def inner_ticks(self, most: int, room: float) -> list[float]:
        """Those of them that lie at least `room` pixels from both ends."""
        first, last = sorted((self.start, self.stop))
        return [tick for tick in self.ticks(most) if first + room < self(tick) < last - room]


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


def px(at: float) -> str:
    """A length in an attribute: tenths of a pixel, none written where there are none."""
    text = f"{at:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def point(x: float, y: float) -> str:
    """A point of a path, in pixels."""
    return f"{px(x)} {px(y)}"


def through(points: Iterable[tuple[float, float]]) -> str:
    """The path through points in pixels, broken where one is not finite."""
    d, pen = "", "M"
    for x, y in points:
        d, pen = (f"{d}{pen}{point(x, y)}", "L") if math.isfinite(y) else (d, "M")
    return d


def drawing(inside: str, height: float, label: str, *, holds_links: bool = False) -> Markup:
    """A whole chart; `label` says in words what it shows. One that holds links is a group: an image hides them."""
    role = "group" if holds_links else "img"
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {px(height)}" width="{WIDTH}" height="{px(height)}" role="{role}" '
        f'aria-label="{escape(label)}">{inside}</svg>'
    )


@dataclass
class Plot:
    """A chart under way. Methods take data unless a parameter is said to be in pixels (px)."""

    x: Scale
    y: Scale
    marks: list[str] = field(default_factory=list)

    def add(self, mark: str) -> None:
        """A mark that is SVG already."""
        self.marks.append(mark)

    def path(self, css: str, d: str, *, stroke: float | None = None) -> None:
        """A path whose data is in px; an empty one is left out. `stroke` is its width in px."""
        width = f' stroke-width="{px(stroke)}"' if stroke is not None else ""
        if d:
            self.add(f'<path class="{css}"{width} d="{d}"/>')

    def curve(self, css: str, xs: Iterable[float], ys: Iterable[float]) -> None:
        """A line through data points."""
        self.path(css, self.line(xs, ys))

    def line(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        """The same as the data of a path."""
        return through((self.x(a), self.y(b)) for a, b in zip(xs, ys, strict=True))

    def text(self, words: object, x: float, y: float, *, css: str = "", anchor: str = "") -> None:
        """Words at a place in px."""
        named = f' class="{css}"' if css else ""
        side = f' text-anchor="{anchor}"' if anchor else ""
        self.add(f'<text{named} x="{px(x)}" y="{px(y)}"{side}>{escape(words)}</text>')

    def dot(self, css: str, x: float, y: float, r: float = 4) -> None:
        """A point of the data as a disc, its radius in px."""
        self.add(f'<circle class="{css}" cx="{px(self.x(x))}" cy="{px(self.y(y))}" r="{px(r)}"/>')

    # -- axes

    def across(self, css: str, y: float) -> None:
        """A line over the whole width at a place of the data."""
        self.path(css, f"M{px(self.x.start)} {px(self.y(y))}H{px(self.x.stop)}")

    def rows(self, at: Sequence[float], text: Callable[[float], str] = tick_text, *, zero: str = "grid-line") -> None:
        """Lines across with their numbers on the left; `zero` is the class of the one at 0."""
        for tick in at:
            self.across("grid-line" if tick else zero, tick)
            self.text(text(tick), self.x.start - 6, self.y(tick) + 4, anchor="end")

    def feet(self, at: Iterable[float], text: Callable[[float], str] = tick_text, *, below: float = 17) -> None:
        """Numbers under the chart, `below` px under its lower end."""
        for tick in at:
            self.text(text(tick), self.x(tick), self.y.start + below, anchor="middle")

    def notches(self, at: Iterable[float], css: str = "grid-line") -> None:
        """Short lines down from the lower end, where numbers stand."""
        for tick in at:
            self.path(css, f"M{px(self.x(tick))} {px(self.y.start)}v4")

    def base(self, css: str = "axis") -> None:
        """The line along the lower end."""
        self.path(css, f"M{px(self.x.start)} {px(self.y.start)}H{px(self.x.stop)}")

    def guide(self, x: float, y: float, css: str = "guide") -> None:
        """A line from the lower end up to a point."""
        self.path(css, f"M{px(self.x(x))} {px(self.y.start)}V{px(self.y(y))}")

    def svg(self, height: float, label: str, *, holds_links: bool = False) -> Markup:
        """All of it."""
        return drawing("".join(self.marks), height, label, holds_links=holds_links)
