"""The gradient's size at each block on its way back, with and without the additions, and the weights of one block."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.live import base
from app.live.base import Part, Scene
from app.live.stream import length, slopes_without_adding
from app.present import charts
from app.present.learn_charts import LogAxis
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
    feed-forward network. `alone` is the size in a network that does not add, set to the same size at the end.
    """

    block: int
    size: str
    attention: str
    feed_forward: str
    alone: str
    bar: Markup
    alone_bar: Markup


@dataclass(frozen=True)
class Matrix:
    """A matrix W of the block, `name` being its index: the size of all slopes, the weight with the steepest."""

    name: str
    site: str
    size: str
    weight: str
    n: int


@dataclass(frozen=True)
class View:
    """`kept` is the size at the first block over that after the last, an expression; `kept_alone` without adding."""

    layers: list[Layer]
    leaves: str
    leaves_bar: Markup
    axis: Markup
    block: int
    matrices: list[Matrix]
    kept: str
    kept_alone: str
    helps: bool
    n_parameters: int


def view(scene: Scene, s: Settings) -> View:
    run, n_layer = scene.run, scene.model.config.n_layer
    block = n_layer - 1 if s.block is None else s.block
    if block >= n_layer:
        raise SettingError(
            "block", f"There is no block {block}: this model's are 0 to {n_layer - 1}.", "Write block=0."
        )
    after = f"blocks.{n_layer - 1}.resid_post"
    leaves = float(run.gradient(after).norm())
    sizes = [float(run.gradient(f"blocks.{b}.resid_pre").norm()) for b in range(n_layer)]
    *alone, end = slopes_without_adding(run)
    alone = [size * leaves / end if end else 0.0 for size in alone]
    axis = LogAxis.over([*sizes, *alone, leaves])
    layers = [
        Layer(
            b, length(f"blocks.{b}.resid_pre[:,:].grad"),
            length(f"(blocks.{b}.resid_pre[:,:].grad-blocks.{b}.resid_mid[:,:].grad)"),
            length(f"(blocks.{b}.resid_mid[:,:].grad-blocks.{b}.resid_post[:,:].grad)"),
            charts.brief(alone[b]), axis.bars(sizes[b]), axis.bars(alone[b]),
        )
        for b in reversed(range(n_layer))
    ]  # fmt: skip
    first, last = length("blocks.0.resid_pre[:,:].grad"), length(f"{after}[:,:].grad")
    kept, kept_alone = (sizes[0] / leaves, alone[0] / leaves) if leaves else (0.0, 0.0)
    helps = abs(math.log(kept or 1e-30)) < abs(math.log(kept_alone or 1e-30))
    return View(
        layers, last, axis.bars(leaves), axis.head(), block,
        [matrix(scene, name, f"blocks.{block}.{site}") for name, site in MATRICES],
        f"{first}/{last}" if leaves else "0", charts.brief(kept_alone), helps,
        scene.model.n_parameters,
    )  # fmt: skip


def matrix(scene: Scene, name: str, site: str) -> Matrix:
    shape = scene.run.shape(site)
    slopes = scene.run.gradient_at(site, tuple(slice(None, None) for _ in shape)).numpy()
    steepest = [int(i) for i in np.unravel_index(int(np.abs(slopes).argmax()), shape)]
    every = ",".join(":" for _ in shape)
    return Matrix(
        name, site, length(f"{site}[{every}].grad"), f"{site}[{','.join(map(str, steepest))}]", int(np.prod(shape))
    )


PART = Part(
    "math_back", "The slope on its way back", Settings, view, home="math#blocks", rem=48,
    about="How large the gradient is at each block, what the additions do for it, and the slopes of a block’s weights.",
)  # fmt: skip
