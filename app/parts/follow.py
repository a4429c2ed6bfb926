"""Every value of a model small enough for one page: the toy's one block on three words, site after site."""

from __future__ import annotations

from functools import partial

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import Field

from app.parts.base import Scene, Settings, View, check_among, live_part
from app.parts.numbers import Numbers
from app.render import numbers
from app.request.state import State

TOY = State(model="toy", text="the cat sat", bos=False)
LARGEST = 8  # entries of a row; a wider model's values do not fit a page
MOST = 6  # tokens
POSITIONS = ("pos", "query")


@live_part("Every number of one block", home="transformer#follow", rem=200, run=TOY)
class Follow(Settings):
    """All the numbers of a block small enough for one page, every one of them clickable."""

    t: int = Field(2, ge=0)

    def view(self, scene: Scene) -> View:
        """`borrowed` says that the page's own model is too large and the toy is shown."""
        c = scene.model.config
        fits = c.d_model <= LARGEST and c.n_layer == 1 and c.act == "relu" and scene.run.n_pos <= MOST
        num = scene.num if fits else scene.numbers_of(TOY)
        check_among("t", self.t, "position", "this text's", num.run.n_pos)
        (best, _), *_ = num.run.top(1, self.t)
        return View(num=num, borrowed=not fits, best=best, grids=partial(grids_of, num))


def grids_of(num: Numbers, site: str, followed: int | None = None) -> list[View]:
    """A site or parameter as matrices: one, or one for each head."""
    axes, values = num.run.model.graph[site].axes, num.run.tensor(site).numpy()
    if "head" not in axes:
        return [grid_of(num, site, values, None, followed)]
    heads = np.moveaxis(values, axes.index("head"), 0)
    return [grid_of(num, site, part, head, followed) for head, part in enumerate(heads)]


def grid_of(num: Numbers, site: str, values: NDArray[np.float32], head: int | None, followed: int | None) -> View:
    """A matrix of linked numbers with the names of its rows: a row for each position, or a single row."""
    axes = num.run.model.graph[site].axes
    row_axis, *more = [axis for axis in axes if axis != "head"]
    column_axis = more[0] if more else ""
    if not more and row_axis != "pos":
        row_axis, column_axis = "", row_axis
    matrix = values if more else values[:, None] if row_axis else values[None, :]

    def cell(r: int, c: int, x: float) -> Markup:
        place = {"head": head, row_axis: r, column_axis: c}
        return num.shown(f"{site}[{','.join(str(place[axis]) for axis in axes)}]", text(site, x))

    return View(
        name="" if head is None else f"head {head}",
        columns=[column_name(num, column_axis, c) for c in range(matrix.shape[1])],
        rows=[
            (
                row_name(num, row_axis, r),
                row_axis in POSITIONS and r == followed,
                [cell(r, c, x) for c, x in enumerate(row)],
            )
            for r, row in enumerate(matrix.tolist())
        ],
    )


def text(site: str, x: float) -> str:
    """Weights are round; what is computed shows two decimals."""
    return f"{x:g}".replace("-", numbers.MINUS) if site.split(".")[-1][:2] in ("W_", "b_") else numbers.fixed(x, 2)


def row_name(num: Numbers, axis: str, n: int) -> Markup:
    """A row's name: its token where it is a position or a word of the vocabulary."""
    if axis in POSITIONS:
        return num.at(n, numbered=True)
    if axis == "d_vocab":
        return num.token(n)
    return Markup(str(n)) if axis else Markup("")


def column_name(num: Numbers, axis: str, n: int) -> str:
    show = num.run.model.tokenizer.show
    if axis == "key":
        return show(num.run.tokens[n])
    return show(n) if axis == "d_vocab" else str(n) if axis else ""
