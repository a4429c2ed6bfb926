"""The whole tensor above the window of numbers: a picture of each head, a strip of the matrix, and the legend.

Every picture is a way in: a head's leads to the same place in that head; an area of the strip leads to the number of
largest size in it.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
from markupsafe import Markup

from app.panels.values import summary
from app.panels.values.legend import legend
from app.panels.values.summary import Blocks, Summary, whole
from app.panels.values.window import MOST, Window
from app.render import numbers
from app.render.heat import picture
from app.render.links import Links
from app.render.templating import Context
from model.address.parser import Address, Index
from model.arch.base import ATTENTION, HEADS, stacked_axis
from model.runtime.run import Run

CELLS = 900  # cells of all heads' pictures together; half as many beside a strip
AREAS_ACROSS, AREAS = 10, 20  # links on the strip: across, and in all


def overview(run: Run, shown: Window, links: Links, value: float | None) -> Context | None:
    """The overview of the tensor in `shown`; None where there is nothing to see: token ids, a single number.

    `heads` are list items, one a head; `strip` the picture of the matrix that the window is cut from.
    """
    if shown.kind == "single" or shown.address.site == "tokens" or summary.is_too_large(run, shown.address):
        return None
    of = summary.summary(run, whole(shown.address))
    has_heads = len(shown.axes) == 3 and shown.axes[shown.fixed[0][0]] in HEADS
    is_cut = not (shown.rows.is_whole and shown.cols.is_whole)
    return {
        "label": _label(run, shown, of),
        "heads": _heads(run, shown, of, links) if has_heads else "",
        "n_heads": run.size(shown.axes[shown.fixed[0][0]]) if has_heads else 0,
        "strip": _strip(run, shown, of, links) if is_cut else "",
        "strip_label": _strip_label(run, shown) if is_cut else "",
        "legend": legend(of, value) if of.low < of.high else "",
    }


def _label(run: Run, shown: Window, of: Summary) -> str:
    size = " × ".join(map(numbers.count, run.shape(shown.address.site)))
    if shown.is_masked:
        size += f", {numbers.count(of.n)} of them unmasked,"
    elif len(shown.axes) > 1:
        size += f" = {numbers.count(of.n)} numbers"
    else:
        size += " numbers"
    odd = f"; {numbers.count(of.odd)} are NaN or infinite" if of.odd else ""
    sampled = f"; the bars count a sample of {numbers.count(of.sampled)}" if of.sampled < of.n // 2 else ""
    return f"The whole tensor: {size} from {numbers.rough(of.low)} to {numbers.rough(of.high)}{odd}{sampled}"


# -- heads


def _heads(run: Run, shown: Window, of: Summary, links: Links) -> Markup:
    """One picture a head on the tensor's own scale."""
    axis = stacked_axis(shown.axes)
    n = run.size(shown.axes[axis])
    rows, cols = _head_size(shown, n)
    cut = summary.head_blocks(run, whole(shown.address), rows, cols)
    here = dict(shown.fixed)
    steps = of.scale.steps(cut.largest)
    items = []
    for head in range(n):
        is_here = here.get(axis) == head
        link = links.number(_in_head(shown, axis, head), f"head {head}", css="to", current=is_here)
        items.append(Markup('<li class="head">{}{}</li>').format(picture(steps[head], f"head-{head}"), link))
    return Markup("").join(items)


def _head_size(shown: Window, n_head: int) -> tuple[int, int]:
    """Rows and columns of each head's picture: all numbers where they are few, else about CELLS."""
    rows, cols = shown.rows.n, shown.cols.n
    most = CELLS if shown.rows.is_whole and shown.cols.is_whole else CELLS // 2
    used = rows * (cols + 1) // 2 if shown.axes == ATTENTION else rows * cols
    if used * n_head <= most:
        return rows, cols
    each = most // n_head * (2 if shown.axes == ATTENTION else 1)
    side = max(4, isqrt(each))
    rows = min(rows, side)
    return rows, min(cols, max(4, each // rows))


def _in_head(shown: Window, axis: int, head: int) -> str:
    """The address with another head."""
    index: list[Index] = list(shown.address.index)
    index[axis] = head
    return str(Address(shown.address.site, tuple(index), shown.address.quantity))


# -- the strip


def _strip(run: Run, shown: Window, of: Summary, links: Links) -> Markup:
    """The matrix in blocks, each as deep as its largest number, under a layer of links."""
    cut = summary.plane_blocks(run, whole(shown.address), shown.plane)
    rows = len(cut.row_edges) - 1
    marks = _frame(shown, cut.row_edges, cut.col_edges) + _spot(shown, cut.row_edges, cut.col_edges)
    drawn = picture(of.scale.steps(cut.largest), "strip", marks)
    key = ("areas", str(shown.plane))
    targets = summary.kept(run, whole(shown.address), key, lambda: _targets(run, shown, cut))
    areas = Markup("").join(
        Markup("<div>{}</div>").format(Markup("").join(_area(shown, target, links) for target in line))
        for line in targets
    )
    size = "low" if rows <= 2 else "tall" if rows >= 8 else "mid"
    return Markup('<div class="strip {}">{}<div class="areas">{}</div></div>').format(size, drawn, areas)


Target = tuple[int, int, float]  # row, column, number


def _targets(run: Run, shown: Window, cut: Blocks) -> list[list[Target]]:
    """Where each area of the strip leads: to the number of largest size in it."""
    x = summary.matrix(run, shown.address, shown.plane)
    rows, cols = cut.largest.shape
    across = min(AREAS_ACROSS, -(-x.shape[1] // MOST), cols)
    down = max(1, min(AREAS // across, -(-x.shape[0] // MOST), rows))

    def target(i: int, j: int) -> Target:
        r, c = summary.largest_in(x, cut, _part(i, down, rows), _part(j, across, cols))
        return r, c, float(x[r, c])

    return [[target(i, j) for j in range(across)] for i in range(down)]


def _area(shown: Window, target: Target, links: Links) -> Markup:
    r, c, value = target
    return links.number(_cell(shown, r, c), "", css="area", label=f"largest here: {numbers.rough(value)}")


def _part(i: int, parts: int, n: int) -> range:
    """The i-th of `parts` nearly equal parts of n."""
    return range(i * n // parts, (i + 1) * n // parts)


def _cell(shown: Window, r: int, c: int) -> str:
    """The address of the number in row `r` and column `c` of the matrix (a vector is one row)."""
    if shown.kind == "grid":
        return shown.at(r, c)
    return str(Address(shown.address.site, (c,), shown.address.quantity))


def _strip_label(run: Run, shown: Window) -> str:
    """What the strip shows: which part of the tensor, and how many numbers a mark stands for."""
    shape = [run.size(axis) for a, axis in enumerate(shown.axes) if a not in dict(shown.fixed)]
    rows, cols = (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])
    each = -(-rows // min(rows, summary.ROWS)) * -(-cols // min(cols, summary.COLS))
    part = "".join(f"{shown.axes[a]} {i}: " for a, i in shown.fixed)
    mark = "a mark a number" if each == 1 else f"a mark is the largest of up to {numbers.count(each)}"
    words = f"{part}{' × '.join(map(numbers.count, shape))}, {mark}. A click goes to the largest number there."
    return words[0].upper() + words[1:]


def _frame(shown: Window, row_edges: np.ndarray, col_edges: np.ndarray) -> Markup:
    """The window's outline, in blocks."""
    (r0, r1), (c0, c1) = _extent(shown)
    x0, x1 = _in_blocks(c0, col_edges), _in_blocks(c1, col_edges)
    y0, y1 = _in_blocks(r0, row_edges), _in_blocks(r1, row_edges)
    return Markup(f'<rect class="frame" x="{x0:.2f}" y="{y0 - 0.5:.2f}" width="{x1 - x0:.2f}" height="{y1 - y0:.2f}"/>')


def _extent(shown: Window) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns of the matrix that are in view."""
    if shown.kind == "grid":
        return (shown.rows.start, shown.rows.stop), (shown.cols.start, shown.cols.stop)
    if shown.kind == "list":
        return (0, 1), (shown.rows.start, shown.rows.stop)
    return (0, 1), (shown.rows.start * MOST, min(shown.rows.stop * MOST, shown.n))


def _spot(shown: Window, row_edges: np.ndarray, col_edges: np.ndarray) -> Markup:
    """A mark on the block that holds the chosen number."""
    if shown.chosen is None:
        return Markup("")
    r, c = shown.chosen
    if shown.kind != "grid":
        r, c = 0, shown.place(r, c)[0]
    x = int(np.searchsorted(col_edges, c, side="right")) - 1
    y = int(np.searchsorted(row_edges, r, side="right")) - 1
    return Markup(f'<rect class="spot" x="{x}" y="{y - 0.5}" width="1" height="1"/>')


def _in_blocks(at: int, cuts: np.ndarray) -> float:
    """Where a row or column lies, counted in blocks."""
    return float(np.interp(at, cuts, np.arange(len(cuts))))
