"""The gradient's size at each block on its way back, with and without the additions, and the weights of one block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Numbers, Part, Scene
from app.parts.stream import (
    length,
    log_ratio,
    slope_at,
    with_and_without_additions,
)
from app.render.curves import LogAxis
from model import Run
from model.errors import SettingError

MATRICES = (
    ("Q", "attn.W_Q"), ("K", "attn.W_K"), ("V", "attn.W_V"), ("O", "attn.W_O"), ("1", "mlp.W_in"), ("2", "mlp.W_out"),
)  # fmt: skip


class Settings(base.Settings):
    """The block whose weights are shown. Left out: the last."""

    block: int | None = Field(None, ge=0, le=999)


@dataclass(frozen=True)
class Layer:
    """Expressions: the slope's size where the block begins, and what came back through attention and through the
    feed-forward network.
    """

    block: int
    size: str
    attention: str
    feed_forward: str
    bar: Markup


@dataclass(frozen=True)
class Matrix:
    """A matrix W of the block, `name` being its index: the size of all slopes, the weight with the steepest, and how
    many weights there are, an expression.
    """

    name: str
    site: str
    size: str
    weight: str
    n: str


@dataclass(frozen=True)
class View:
    """`num` are the run's numbers, `bare` those of the same weights without the additions.

    `kept` is the size at the first block over that after the last, an expression for both runs.
    """

    num: Numbers
    bare: Numbers
    layers: list[Layer]
    leaves: str
    leaves_bar: Markup
    axis: Markup
    block: int
    matrices: list[Matrix]
    kept: str
    helps: bool


def view(scene: Scene, s: Settings) -> View:
    n_layer = scene.model.config.n_layer
    block = n_layer - 1 if s.block is None else s.block
    if block >= n_layer:
        raise SettingError(
            "block", f"There is no block {block}: this model's are 0 to {n_layer - 1}.", "Write block=0."
        )
    num, bare = with_and_without_additions(scene)
    first, after = "blocks.0.resid_pre", f"blocks.{n_layer - 1}.resid_post"
    leaves = float(num.run.gradient(after).norm())
    sizes = [float(num.run.gradient(f"blocks.{b}.resid_pre").norm()) for b in range(n_layer)]
    axis = LogAxis.over([*sizes, leaves])
    layers = [
        Layer(
            b, slope_at(f"blocks.{b}.resid_pre"),
            length(f"(blocks.{b}.resid_pre[:,:].grad-blocks.{b}.resid_mid[:,:].grad)"),
            length(f"(blocks.{b}.resid_mid[:,:].grad-blocks.{b}.resid_post[:,:].grad)"), axis.bars(sizes[b]),
        )
        for b in reversed(range(n_layer))
    ]  # fmt: skip
    return View(
        num, bare, layers, slope_at(after), axis.bars(leaves), axis.head(), block,
        [matrix(num.run, name, f"blocks.{block}.{site}") for name, site in MATRICES],
        f"{slope_at(first)}/{slope_at(after)}" if leaves else "0",
        abs(log_ratio(num.run, first, after)) < abs(log_ratio(bare.run, first, after)),
    )  # fmt: skip


def matrix(run: Run, name: str, site: str) -> Matrix:
    shape = run.shape(site)
    slopes = run.gradient_at(site, tuple(slice(None, None) for _ in shape)).numpy()
    steepest = [int(i) for i in np.unravel_index(int(np.abs(slopes).argmax()), shape)]
    every = ",".join(":" for _ in shape)
    return Matrix(
        name,
        site,
        length(f"{site}[{every}].grad"),
        f"{site}[{','.join(map(str, steepest))}]",
        "*".join(map(str, shape)),
    )


PART = Part(
    "math_back", "The slope on its way back", Settings, view, home="math#blocks", rem=48,
    about="How large the gradient is at each block, what the additions do for it, and the slopes of a block’s weights.",
)  # fmt: skip
