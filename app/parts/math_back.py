"""The gradient's size at each block on its way back, with and without the additions, and the weights of one block."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from app.parts.base import Block, Scene, Settings, View, live_part
from app.parts.expressions import length, log_ratio, slope_size, with_and_without_additions
from app.render.curves import LogAxis
from model import Run

MATRICES = {"Q": "attn.W_Q", "K": "attn.W_K", "V": "attn.W_V", "O": "attn.W_O", "1": "mlp.W_in", "2": "mlp.W_out"}


@live_part("The slope on its way back", home="math#blocks", rem=48)
class BlockSlopes(Settings):
    """How large the gradient is at each block, what the additions do for it, and the slopes of a block’s weights."""

    block: Block | None = None

    def view(self, scene: Scene) -> View:
        """`without` are numbers of the same weights without the additions.

        `kept` is the size at the first block over that after the last, an expression for both runs.
        """
        n_layer = scene.model.config.n_layer
        block = n_layer - 1 if self.block is None else self.block
        num, without = with_and_without_additions(scene)
        entries, after = [f"blocks.{b}.resid_pre" for b in range(n_layer)], f"blocks.{n_layer - 1}.resid_post"
        *sizes, leaves = (float(num.run.gradient(site).norm()) for site in (*entries, after))
        axis = LogAxis.over([*sizes, leaves])
        return View(
            num=num,
            without=without,
            layers=[layer(b, axis.bars(sizes[b])) for b in reversed(range(n_layer))],
            leaves=slope_size(after),
            leaves_bar=axis.bars(leaves),
            axis=axis.head(),
            block=block,
            matrices=[matrix(num.run, name, f"blocks.{block}.{site}") for name, site in MATRICES.items()],
            kept=f"{slope_size(entries[0])}/{slope_size(after)}" if leaves else "0",
            helps=abs(log_ratio(num.run, entries[0], after)) < abs(log_ratio(without.run, entries[0], after)),
        )


def layer(b: int, bar: Markup) -> View:
    """Expressions: the slope's size where the block begins, and what came back through attention and through the
    feed-forward network.
    """
    pre, mid, post = (f"blocks.{b}.resid_{name}[:,:].grad" for name in ("pre", "mid", "post"))
    return View(
        block=b, size=length(pre), attention=length(f"({pre}-{mid})"), feed_forward=length(f"({mid}-{post})"), bar=bar
    )


def matrix(run: Run, name: str, site: str) -> View:
    """A matrix W of the block, `name` being its index: the size of all slopes, the weight with the steepest, and how
    many weights there are, an expression.
    """
    shape = run.shape(site)
    slopes = run.gradient_at(site, tuple(slice(None, None) for _ in shape)).numpy()
    steepest = np.unravel_index(int(np.abs(slopes).argmax()), shape)
    return View(
        name=name,
        size=length(f"{site}[{','.join(':' for _ in shape)}].grad"),
        weight=f"{site}[{','.join(map(str, steepest))}]",
        n="*".join(map(str, shape)),
    )
