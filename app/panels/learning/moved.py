"""How far the weights went, part by part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from app.panels.learning.numbers import Show
from app.render import numbers
from app.render.curves import LogAxis
from model import Run

# What a block's parameters are called together.
PARTS = {"attn": "attention", "mlp": "feed-forward", "ln1": "norms", "ln2": "norms"}


@dataclass(frozen=True)
class MovedRow:
    """How far the weights of one part went."""

    block: str
    words: str
    bar: Markup
    one: Markup
    all: Markup


def moved(show: Show) -> tuple[tuple[MovedRow, ...], Markup, Markup]:
    """A row for each block's part, and for each tensor outside the blocks."""
    graph = show.run.model.graph
    named = [(_block_of(name), _part_of(show.run, name), name) for name in show.learned.moved]
    groups: dict[tuple[str, str], list[str]] = {}
    for block, part, name in named:
        groups.setdefault((block, part), []).append(name)
    order = sorted(groups, key=lambda key: (_rank(key[0], graph.config.n_layer), list(groups).index(key)))
    sizes = {key: _together(show.learned.moved, groups[key]) for key in order}
    axis = LogAxis.over([size for pair in sizes.values() for size in pair])
    rows = []
    for block, keys in groupby(order, key=lambda key: key[0]):
        for n, key in enumerate(keys):
            one, every = sizes[key]
            rows.append(
                MovedRow(
                    block if n == 0 else "",
                    key[1],
                    axis.bars(one, every) if show.k > 1 else axis.bars(one),
                    show.short.number(_length_of(groups[key], 1), numbers.value(one)),
                    show.short.number(_length_of(groups[key], show.k), numbers.value(every)),
                )
            )
    return tuple(rows), axis.head(), _moved_says(order, sizes)


def _moved_says(order: list[tuple[str, str]], sizes: dict[tuple[str, str], tuple[float, float]]) -> Markup:
    key = max(order, key=lambda key: sizes[key][1])
    if not sizes[key][1] > 0:
        return Markup("No weight moved.")
    where = key[1] if key[0] == "outside" else f"the {key[1]} weights of {key[0]}"
    return Markup("The farthest way was that of {}.").format(where)


def _rank(block: str, n_layer: int) -> int:
    return -1 if block == "outside" else int(block.split()[1])


def _block_of(name: str) -> str:
    return f"block {name.split('.')[1]}" if name.startswith("blocks.") else "outside"


def _part_of(run: Run, name: str) -> str:
    node = run.model.graph[name]
    return PARTS.get(node.part, node.part) if node.block is not None else name if "." not in name else node.part


def _together(moved: dict[str, tuple[float, float]], names: list[str]) -> tuple[float, float]:
    one, every = zip(*(moved[name] for name in names), strict=True)
    return math.hypot(*one), math.hypot(*every)


def _length_of(names: list[str], k: int) -> str:
    """The address of how far these parameters went together in k steps."""
    parts = (f"sum(({name}.step({k})-{name})*({name}.step({k})-{name}))" for name in names)
    return f"calc(sqrt({'+'.join(parts)}))"
