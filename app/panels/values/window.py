"""Which numbers of a tensor are in view: the two axes that make rows and columns, what is fixed, and the page shown.

A window starts where a page starts, so every number of a window leads back to the same window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from app.request.state import State
from model.address.parser import Address, Index
from model.arch.base import ATTENTION, AXES, stacked_axis
from model.runtime.run import Run

MOST = 16  # columns in view, and positions
MOST_ROWS = 12  # other rows in view

Kind = Literal["grid", "list", "wrap", "single"]
T = TypeVar("T")


@dataclass(frozen=True)
class Span:
    """The part of one axis in view: places start … stop-1 of n. `on` are the places that the address names."""

    axis: str
    n: int
    start: int
    page: int
    on: range

    @property
    def stop(self) -> int:
        return min(self.start + self.page, self.n)

    @property
    def places(self) -> range:
        return range(self.start, self.stop)

    @property
    def is_whole(self) -> bool:
        return self.page >= self.n

    @property
    def before(self) -> int | None:
        """Where the page before starts."""
        return max(self.start - self.page, 0) if self.start else None

    @property
    def after(self) -> int | None:
        return self.stop if self.stop < self.n else None


@dataclass(frozen=True)
class Window:
    """How a tensor is laid out.

    grid    rows × columns of two axes; of three axes one is fixed
    list    one number for each position
    wrap    one long axis broken into lines of 16, as text is
    single  one number
    """

    kind: Kind
    address: Address
    axes: tuple[str, ...]
    rows: Span
    cols: Span
    fixed: tuple[tuple[int, int], ...] = ()  # (axis number, index)
    n: int = 1  # numbers on the wrapped axis

    def _filled(self, *free: T) -> tuple[T | int, ...]:
        """An index with these on the axes that are not fixed, in their order."""
        rest, fixed = iter(free), dict(self.fixed)
        return tuple(fixed[a] if a in fixed else next(rest) for a in range(len(self.axes)))

    @property
    def plane(self) -> tuple[Index, ...]:
        """The index of the whole matrix (or vector) that the window is cut from."""
        return self._filled(slice(None), slice(None))

    def place(self, r: int, c: int) -> tuple[int, ...]:
        """The index of the number in row `r` and column `c`."""
        return self._filled(r * MOST + c if self.kind == "wrap" else r, c)

    def has(self, r: int, c: int) -> bool:
        """False past the end of a wrapped axis."""
        return self.kind != "wrap" or r * MOST + c < self.n

    def at(self, r: int, c: int) -> str:
        """The address of that number."""
        return str(Address(self.address.site, self.place(r, c), self.address.quantity))

    @property
    def index(self) -> tuple[Index, ...]:
        """The index of all numbers in view."""
        if self.kind == "wrap":
            return (slice(self.rows.start * MOST, min(self.rows.stop * MOST, self.n)),)
        return self._filled(_slice(self.rows), _slice(self.cols))

    @property
    def shown(self) -> str:
        """The address of all numbers in view."""
        return str(Address(self.address.site, self.index, self.address.quantity))

    @property
    def chosen(self) -> tuple[int, int] | None:
        """Row and column of the one number that the address names."""
        if not self.address.is_single or self.kind == "single":
            return None
        return self.rows.on.start, self.cols.on.start

    @property
    def is_in_view(self) -> bool:
        """Whether the chosen number is one of those shown."""
        where = self.chosen
        return where is not None and where[0] in self.rows.places and where[1] in self.cols.places

    @property
    def is_masked(self) -> bool:
        """Attention: a key after its query plays no part."""
        return self.axes == ATTENTION

    def masks(self, r: int, c: int) -> bool:
        place = self.place(r, c)
        return self.is_masked and place[2] > place[1]


def page_size(n: int, most: int = MOST) -> int:
    """Pages of nearly equal size, none larger than `most`: 15, 16, and 9 for 17."""
    n_pages = max(1, -(-n // most))
    return max(1, -(-n // n_pages))


def window(run: Run, state: State, address: Address) -> Window:
    """The window on the tensor of a checked address that a page in `state` shows."""
    axes = run.model.graph[address.site].axes
    shape = run.shape(address.site)
    if not axes:
        return Window("single", address, axes, Span("", 1, 0, 1, range(0)), Span("", 1, 0, 1, range(0)))
    if axes == ("pos",):
        rows = _span(axes[0], shape[0], address.index[0], state.row)
        return Window("list", address, axes, rows, Span("", 1, 0, 1, range(1)))
    if len(axes) == 1:
        return _wrapped(address, axes, shape[0], state.row)
    fixed = _fixed(axes, address) if len(axes) == 3 else ()
    r, c = (a for a in range(len(axes)) if a not in dict(fixed))
    most = MOST if AXES[axes[r]].is_text else MOST_ROWS
    rows = _span(axes[r], shape[r], address.index[r], state.row, most)
    cols = _span(axes[c], shape[c], address.index[c], state.col)
    return Window("grid", address, axes, rows, cols, fixed)


def _fixed(axes: tuple[str, ...], address: Address) -> tuple[tuple[int, int], ...]:
    """Three axes: a head is fixed, unless the address runs over heads at one place of another axis."""
    head = stacked_axis(axes)
    at = address.index[head]
    if isinstance(at, int):
        return ((head, at),)
    others = [(a, i) for a, i in enumerate(address.index) if isinstance(i, int)]
    return (others[0],) if others else ((head, at.start or 0),)


def _span(axis: str, n: int, chosen: Index, first: int | None, most: int = MOST) -> Span:
    on = _on(chosen, n)
    page = page_size(n, most)
    start = min(first if first is not None else on.start, n - 1)
    return Span(axis, n, start // page * page, page, on)


def _on(chosen: Index, n: int) -> range:
    """The places that an index names; none for a whole axis, which singles out nothing."""
    if isinstance(chosen, int):
        return range(chosen, chosen + 1)
    start, stop = chosen.start or 0, n if chosen.stop is None else chosen.stop
    return range(start, start) if (start, stop) == (0, n) else range(start, stop)


def _wrapped(address: Address, axes: tuple[str, ...], n: int, first: int | None) -> Window:
    n_rows = -(-n // MOST)
    on = _on(address.index[0], n)
    row, col = divmod(on.start, MOST)
    page = page_size(n_rows, MOST_ROWS)
    start = min(first if first is not None else row, n_rows - 1) // page * page
    single = len(on) == 1
    rows = Span(axes[0], n_rows, start, page, range(row, row + 1) if single else range(0))
    cols = Span(axes[0], min(n, MOST), 0, MOST, range(col, col + 1) if single else range(0))
    return Window("wrap", address, axes, rows, cols, n=n)


def _slice(span: Span) -> slice:
    return slice(None) if span.is_whole else slice(span.start, span.stop)
