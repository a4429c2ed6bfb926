"""A whole tensor in a few numbers: its range, its histogram, and the largest numbers of its blocks.

Bounded work: reductions run over contiguous chunks, a histogram looks at a fixed sample, and both are kept with their
run (those of parameters with their model).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from app.render.heat import Scale, exponent_of
from model.address.parser import Address, Index
from model.arch.base import ATTENTION, Node, stacked_axis
from model.runtime.run import Run

SAMPLE = 1 << 16  # numbers that a histogram looks at
LARGE = 1 << 22  # gradients of larger parameters are computed only where they are looked at
ROWS, COLS = 16, 48  # blocks that a matrix is cut into at most

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

T = TypeVar("T")

_kept: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


def kept(run: Run, of: Address, key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """What `make` gives, kept as long as its owner: the run, or for a parameter's values the model."""
    is_fixed = run.model.graph[of.site].is_parameter and not of.quantity
    store = _kept.setdefault(run.model if is_fixed else run, {})
    name = (of.site, of.quantity, *key)
    if name not in store:
        store[name] = make()
    made: T = store[name]
    return made


def whole(of: Address) -> Address:
    """The address of the whole tensor that an address lies in."""
    return Address(of.site, (), of.quantity)


def part(run: Run, of: Address, index: tuple[Index, ...]) -> NDArray[Any]:
    """The numbers at an index of the tensor `of`: values, or slopes where it says so. A view where there is one."""
    if of.quantity:
        return run.values(Address(of.site, index, of.quantity))
    values: NDArray[Any] = run.tensor(of.site).numpy()[index]
    return values


def everything(run: Run, of: Address) -> NDArray[Any]:
    """The whole tensor `of`."""
    return part(run, of, tuple(slice(None) for _ in run.shape(of.site)))


def is_too_large(run: Run, of: Address) -> bool:
    """Whether looking at all of the tensor would take longer than a reader waits."""
    return bool(of.quantity) and run.model.graph[of.site].is_parameter and math.prod(run.shape(of.site)) > LARGE


def causal(shape: tuple[int, ...]) -> Mask:
    """True where the key (last axis) does not come after the query."""
    return np.tri(shape[-2], shape[-1], dtype=np.bool_)


# -- blocks


@dataclass(frozen=True)
class Blocks:
    """A matrix cut into blocks, with the highest and lowest finite number of each; leading axes (heads) are kept.

    Block i covers rows `row_edges[i]` to `row_edges[i + 1]`. Blocks without a number that counts hold 0.
    `is_odd` where some numbers are NaN or ±∞.
    """

    high: Floats
    low: Floats
    row_edges: Ints
    col_edges: Ints
    is_odd: bool = False

    @property
    def largest(self) -> Floats:
        """The signed number of largest size in each block."""
        return np.where(self.high >= -self.low, self.high, self.low)


def edges(n: int, parts: int) -> Ints:
    """0 … n cut into `parts` nearly equal parts: parts + 1 edges."""
    return np.arange(parts + 1) * n // parts


def blocks(x: Floats, rows: int, cols: int, *, is_masked: bool = False) -> Blocks:
    """Cut the last two axes into at most rows × cols blocks; what attention masks does not count."""
    cuts = edges(x.shape[-2], min(rows, x.shape[-2])), edges(x.shape[-1], min(cols, x.shape[-1]))
    mask = causal(x.shape) if is_masked else None
    high, low = _reduce(x, np.maximum, -np.inf, *cuts, mask), _reduce(x, np.minimum, np.inf, *cuts, mask)
    if not (np.isfinite(high).all() and np.isfinite(low).all()) and _has_odd(x, mask):
        cleaned = np.where(np.isfinite(x), x, 0).astype(np.float32)
        return replace(blocks(cleaned, rows, cols, is_masked=is_masked), is_odd=True)
    is_empty = high < low
    return Blocks(np.where(is_empty, 0, high), np.where(is_empty, 0, low), *cuts)


def _has_odd(x: Floats, mask: Mask | None) -> bool:
    """Whether some number that counts is NaN or ±∞ (blocks that are wholly masked look so, too)."""
    return not bool(np.isfinite(x if mask is None else x[..., mask]).all())


def _reduce(x: Floats, merge: np.ufunc, start: float, row_edges: Ints, col_edges: Ints, mask: Mask | None) -> Floats:
    """The maximum or minimum (`merge`) of each block: first down the rows of a chunk, then along what is left."""
    parts = []
    for a, b in pairwise(row_edges.tolist()):
        chunk = x[..., a:b, :]
        if mask is not None:
            parts.append(merge.reduce(chunk, axis=-2, where=mask[a:b], initial=start))
        else:
            parts.append(chunk[..., 0, :] if b - a == 1 else merge.reduce(chunk, axis=-2))
    stacked = np.stack(parts, axis=-2)
    if len(col_edges) - 1 == stacked.shape[-1]:
        return stacked
    reduced: Floats = merge.reduceat(stacked, col_edges[:-1], axis=-1)
    return reduced


def plane_blocks(run: Run, of: Address, plane: tuple[Index, ...]) -> Blocks:
    """Blocks of one matrix of a tensor (a vector counts as one row), kept."""
    is_masked = run.model.graph[of.site].axes == ATTENTION and isinstance(plane[0], int)
    key = ("blocks", str(plane))
    return kept(run, of, key, lambda: blocks(matrix(run, of, plane), ROWS, COLS, is_masked=is_masked))


def matrix(run: Run, of: Address, plane: tuple[Index, ...]) -> Floats:
    """One matrix of a tensor; a vector as one row."""
    return np.atleast_2d(part(run, of, plane))


def head_blocks(run: Run, of: Address, rows: int, cols: int) -> Blocks:
    """Blocks of every head's matrix, heads first, kept."""
    axes = run.model.graph[of.site].axes

    def make() -> Blocks:
        x = np.moveaxis(everything(run, of), stacked_axis(axes), 0)
        return blocks(x, rows, cols, is_masked=axes == ATTENTION)

    return kept(run, of, ("heads", rows, cols), make)


def largest_in(x: Floats, cut: Blocks, block_rows: range, block_cols: range) -> tuple[int, int]:
    """Row and column, in the matrix `x`, of the finite number of largest size within an area of blocks."""
    area = np.abs(cut.largest[block_rows.start : block_rows.stop, block_cols.start : block_cols.stop])
    i, j = np.unravel_index(int(area.argmax()), area.shape)
    r0, r1 = cut.row_edges[block_rows.start + i], cut.row_edges[block_rows.start + i + 1]
    c0, c1 = cut.col_edges[block_cols.start + j], cut.col_edges[block_cols.start + j + 1]
    part = x[r0:r1, c0:c1]
    block = np.abs(np.where(np.isfinite(part), part, 0))
    r, c = np.unravel_index(int(block.argmax()), block.shape)
    return int(r0 + r), int(c0 + c)


def largest_first(x: NDArray[Any], most: int) -> list[int]:
    """Indices of up to `most` largest numbers of a vector, the largest first, the lower index first on a tie."""
    n = min(most, len(x))
    picked = np.argpartition(-x, n - 1)[:n]
    order: list[int] = picked[np.lexsort((picked, -x[picked]))].tolist()
    return order


# -- summaries


@dataclass(frozen=True)
class Summary:
    """A whole tensor in a few numbers; places that attention masks are left out.

    `n` numbers from `low` to `high`, `odd` of them NaN or ±∞. `counts[step]` of the `sampled` ones lie at a heat step.
    """

    n: int
    low: float
    high: float
    odd: int
    sampled: int
    counts: dict[int, int]
    scale: Scale


def summary(run: Run, of: Address) -> Summary:
    """The summary of the whole tensor `of`, kept."""
    return kept(run, of, ("summary",), lambda: _summary(run, of))


def _summary(run: Run, of: Address) -> Summary:
    node = run.model.graph[of.site]
    x = everything(run, of)
    x = x if x.dtype.kind == "f" else x.astype(np.float32)  # token ids
    mask = causal(x.shape) if node.axes == ATTENTION else None
    low, high, odd = _range(run, of, node, x, mask)
    numbers = _sample(x, mask)
    scale = Scale(max(abs(low), abs(high)), exponent_of(node.span, of.quantity))
    steps, counts = np.unique(scale.steps(numbers[np.isfinite(numbers)]), return_counts=True)
    n = x.size if mask is None else x.shape[0] * int(mask.sum())
    return Summary(n, low, high, odd, len(numbers), dict(zip(steps.tolist(), counts.tolist(), strict=True)), scale)


def _range(run: Run, of: Address, node: Node, x: Floats, mask: Mask | None) -> tuple[float, float, int]:
    """The lowest and the highest finite number, and how many are not finite."""
    if len(node.axes) == 2:  # the overview needs the blocks of the whole matrix anyway
        cut = plane_blocks(run, of, (slice(None), slice(None)))
        low, high, is_odd = float(cut.low.min()), float(cut.high.max()), cut.is_odd
    else:
        counted = True if mask is None else mask
        low = float(np.min(x, where=counted, initial=np.inf))
        high = float(np.max(x, where=counted, initial=-np.inf))
        is_odd = not (math.isfinite(low) and math.isfinite(high))
    if not is_odd:
        return low, high, 0
    numbers = x if mask is None else x[:, mask]
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return low, high, numbers.size - finite.size


def _sample(x: Floats, mask: Mask | None) -> Floats:
    """All numbers of a small tensor; of a large one the same SAMPLE places each time."""
    if x.size <= SAMPLE:
        return (x if mask is None else x[:, mask]).ravel()
    where = np.unravel_index(np.random.default_rng(0).integers(0, x.size, SAMPLE), x.shape)
    picked: Floats = x[where]
    return picked if mask is None else picked[where[2] <= where[1]]
