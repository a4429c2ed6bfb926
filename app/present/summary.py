"""A whole tensor at a glance: its range and histogram, and pictures in which each cell is the largest of a block.

Bounded work: reductions run over contiguous chunks, histograms over a fixed sample, and both are kept with their run
(those of parameters with their model).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from app.present.heat import Scale, exponent_of
from app.present.places import ATTENTION
from model.address import Index
from model.graph import Node
from model.run import Run

SAMPLE = 1 << 16  # numbers that a histogram looks at

Floats = NDArray[np.float32]

_kept: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


def kept(run: Run, node: Node, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What `make` gives, kept as long as its owner: the run, or for a parameter the model."""
    store = _kept.setdefault(run.model if node.is_parameter else run, {})
    if (node.name, *key) not in store:
        store[node.name, *key] = make()
    return store[node.name, *key]


@dataclass(frozen=True)
class Summary:
    """A whole tensor in a few numbers, places that attention masks left out.

    `n` numbers from `low` to `high`, `odd` of them NaN or ±∞. `counts[step]` of the `sampled` ones lie at a heat step.
    """

    n: int
    low: float
    high: float
    odd: int
    sampled: int
    counts: dict[int, int]
    scale: Scale


def summary(run: Run, site: str) -> Summary:
    """The summary of a site or parameter."""
    node = run.model.graph[site]
    made: Summary = kept(run, node, ("summary",), lambda: _summary(run.tensor(site).numpy(), node))
    return made


def _summary(x: Floats, node: Node) -> Summary:
    mask = causal(x.shape) if node.axes == ATTENTION else None
    low, high = _range(x, mask)
    numbers = _sample(x, mask)
    odd = 0
    if not (math.isfinite(low) and math.isfinite(high)):
        counted = x if mask is None else x[:, mask]
        finite = counted[np.isfinite(counted)]
        odd = counted.size - finite.size
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    scale = Scale(max(abs(low), abs(high)), exponent_of(node.short))
    steps, counts = np.unique(scale.steps(numbers[np.isfinite(numbers)]), return_counts=True)
    n = x.size if mask is None else x.shape[0] * int(mask.sum())
    return Summary(n, low, high, odd, len(numbers), dict(zip(steps.tolist(), counts.tolist(), strict=True)), scale)


def _range(x: Floats, mask: NDArray[np.bool_] | None) -> tuple[float, float]:
    if mask is None:
        return float(x.min()), float(x.max())
    return float(np.min(x, where=mask, initial=np.inf)), float(np.max(x, where=mask, initial=-np.inf))


def _sample(x: Floats, mask: NDArray[np.bool_] | None) -> Floats:
    """All numbers of a small tensor; of a large one the same SAMPLE places each time."""
    if x.size <= SAMPLE:
        return (x if mask is None else x[:, mask]).ravel()
    where = np.unravel_index(np.random.default_rng(0).integers(0, x.size, SAMPLE), x.shape)
    picked: Floats = x[where]
    return picked if mask is None else picked[where[2] <= where[1]]


def causal(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """True where the key (last axis) does not come after the query."""
    return np.tri(shape[-2], shape[-1], dtype=np.bool_)


@dataclass(frozen=True)
class Blocks:
    """A matrix cut into rows × cols blocks: `largest[…, i, j]` is the signed number of largest size in a block.

    Leading axes (heads) are kept. Blocks that are all masked hold 0. Block i covers rows `row_edges[i]` to `[i+1]`.
    """

    largest: Floats
    row_edges: NDArray[np.int64]
    col_edges: NDArray[np.int64]


def edges(n: int, parts: int) -> NDArray[np.int64]:
    """0 … n cut into `parts` nearly equal parts: parts + 1 edges."""
    return np.arange(parts + 1) * n // parts


def blocks(x: Floats, rows: int, cols: int, *, is_masked: bool = False) -> Blocks:
    """Cut the last two axes into at most rows × cols blocks."""
    row_edges, col_edges = edges(x.shape[-2], min(rows, x.shape[-2])), edges(x.shape[-1], min(cols, x.shape[-1]))
    mask = causal(x.shape) if is_masked else None
    high = _reduce(x, np.max, np.maximum, -np.inf, row_edges, col_edges, mask)
    low = _reduce(x, np.min, np.minimum, np.inf, row_edges, col_edges, mask)
    seen_odd = not (np.isfinite(high).all() and np.isfinite(low).all())
    if seen_odd and not np.isfinite(x if mask is None else x[..., mask]).all():
        return blocks(np.where(np.isfinite(x), x, 0).astype(np.float32), rows, cols, is_masked=is_masked)
    largest = np.where(high >= -low, high, low)
    return Blocks(np.where(np.isfinite(largest), largest, 0), row_edges, col_edges)


def _reduce(
    x: Floats,
    over: Callable[..., Floats],
    merge: np.ufunc,
    start: float,
    row_edges: NDArray[np.int64],
    col_edges: NDArray[np.int64],
    mask: NDArray[np.bool_] | None,
) -> Floats:
    parts = []
    for a, b in pairwise(row_edges.tolist()):
        part = x[..., a:b, :]
        if mask is not None:
            part = over(part, axis=-2, where=mask[a:b], initial=start)
        else:
            part = part[..., 0, :] if b - a == 1 else over(part, axis=-2)
        parts.append(part)
    stacked = np.stack(parts, axis=-2)
    if len(col_edges) - 1 == stacked.shape[-1]:
        return stacked
    reduced: Floats = merge.reduceat(stacked, col_edges[:-1], axis=-1)
    return reduced


def plane_blocks(run: Run, site: str, plane: tuple[Index, ...], rows: int, cols: int) -> Blocks:
    """Blocks of one matrix of a tensor (a vector counts as one row), kept."""
    node = run.model.graph[site]

    def make() -> Blocks:
        x = run.tensor(site).numpy()[plane]
        is_masked = node.axes == ATTENTION and not isinstance(plane[0], slice)
        return blocks(x if x.ndim == 2 else x.reshape(1, -1), rows, cols, is_masked=is_masked)

    made: Blocks = kept(run, node, ("blocks", str(plane), rows, cols), make)
    return made


def head_blocks(run: Run, site: str, rows: int, cols: int) -> Blocks:
    """Blocks of every head's matrix, heads first, kept."""
    node = run.model.graph[site]
    head = node.axes.index("head")

    def make() -> Blocks:
        x = np.moveaxis(run.tensor(site).numpy(), head, 0)
        return blocks(x, rows, cols, is_masked=node.axes == ATTENTION)

    made: Blocks = kept(run, node, ("heads", rows, cols), make)
    return made


def largest_in(x: Floats, cut: Blocks, block_rows: range, block_cols: range) -> tuple[int, int]:
    """Row and column, in the matrix `x`, of the number of largest size within an area of blocks."""
    area = np.abs(cut.largest[block_rows.start : block_rows.stop, block_cols.start : block_cols.stop])
    i, j = np.unravel_index(int(area.argmax()), area.shape)
    r0, r1 = cut.row_edges[block_rows.start + i], cut.row_edges[block_rows.start + i + 1]
    c0, c1 = cut.col_edges[block_cols.start + j], cut.col_edges[block_cols.start + j + 1]
    block = np.abs(np.where(np.isfinite(part := x[r0:r1, c0:c1]), part, 0))
    r, c = np.unravel_index(int(block.argmax()), block.shape)
    return int(r0 + r), int(c0 + c)
