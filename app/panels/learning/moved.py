"""How far the weights went, part by part."""

from __future__ import annotations

import math
from itertools import groupby

from app.panels.learning.show import LearnedNumbers
from app.render import numbers
from app.render.curves import LogAxis
from app.render.templating import Context
from model import Run

# What a block's parameters are called together.
PARTS = {"attn": "attention", "mlp": "feed-forward", "ln1": "norms", "ln2": "norms"}
OUTSIDE = "outside"

Part = tuple[str, str]  # a block, or OUTSIDE, and what its parameters are called together


def moved(show: LearnedNumbers) -> Context:
    """A row for each block's part, and for each tensor outside the blocks."""
    parts: dict[Part, list[str]] = {}
    for name in show.learned.moved:
        parts.setdefault(_part_of(show.run, name), []).append(name)
    order = sorted(parts, key=lambda part: -1 if part[0] == OUTSIDE else int(part[0].split()[1]))
    sizes = {part: _together(show.learned.moved, parts[part]) for part in order}
    axis = LogAxis.over([size for pair in sizes.values() for size in pair])
    rows = [
        _row(show, axis, block if n == 0 else "", words, parts[block, words], sizes[block, words])
        for block, of_block in groupby(order, key=lambda part: part[0])
        for n, (_, words) in enumerate(of_block)
    ]
    return {"moved": rows, "axis": axis.head(), "moved_says": _says(max(order, key=lambda part: sizes[part][1]), sizes)}


def _row(
    show: LearnedNumbers, axis: LogAxis, block: str, words: str, names: list[str], sizes: tuple[float, float]
) -> Context:
    """How far these parameters went in one step, and in all."""
    one, every = sizes
    return {
        "block": block,
        "words": words,
        "bar": axis.bars(one, every) if show.k > 1 else axis.bars(one),
        "one": show.buttons.number(_length_of(names, 1), numbers.value(one)),
        "all": show.buttons.number(_length_of(names, show.k), numbers.value(every)),
    }


def _says(farthest: Part, sizes: dict[Part, tuple[float, float]]) -> str:
    block, words = farthest
    if not sizes[farthest][1] > 0:
        return "No weight moved."
    return f"The farthest way was that of {words if block == OUTSIDE else f'the {words} weights of {block}'}."


def _part_of(run: Run, name: str) -> Part:
    node = run.model.graph[name]
    if node.block is None:
        return OUTSIDE, name if "." not in name else node.part
    return f"block {node.block}", PARTS.get(node.part, node.part)


def _together(moved: dict[str, tuple[float, float]], names: list[str]) -> tuple[float, float]:
    one, every = zip(*(moved[name] for name in names), strict=True)
    return math.hypot(*one), math.hypot(*every)


def _length_of(names: list[str], k: int) -> str:
    """The address of how far these parameters went together in k steps."""
    parts = (f"sum(({name}.step({k})-{name})*({name}.step({k})-{name}))" for name in names)
    return f"calc(sqrt({'+'.join(parts)}))"
