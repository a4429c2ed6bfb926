"""Take the activation away and the two matrices of a feed-forward network are one."""

from __future__ import annotations

import numpy as np

from app.parts.base import Block, Position, Scene, Settings, View, live_part
from model import Run

SHOWN = 6


@live_part("Without the bend, two are one", home="transformer#bend", rem=28)
class Collapse(Settings):
    """Replace the bend by nothing and compare the two matrices with the one that they collapse into."""

    bend: bool = False
    block: Block = 0
    t: Position | None = None

    def view(self, scene: Scene) -> View:
        """`largest` is the entry where the two ways differ most. `usual`: the mean size of an entry."""
        t = scene.last if self.t is None else self.t
        two = through_network(self.block, t, ":", activation=self.bend)
        return View(
            entries=[
                entry(self.block, t, i, activation=self.bend) for i in range(min(SHOWN, scene.model.config.d_model))
            ],
            t=t,
            largest=farthest(scene.run, self.block, t, activation=self.bend),
            usual=f"mean(sqrt(({two})*({two})))",
        )


def entry(block: int, t: int, i: int, *, activation: bool, turned: bool = False) -> View:
    """An entry of the update, as expressions: through both matrices, through their product, and the difference, which
    may be turned around.
    """
    two, one = through_network(block, t, str(i), activation=activation), through_product(block, t, str(i))
    return View(i=i, two=two, one=one, difference=f"{one}-({two})" if turned else f"{two}-({one})")


def through_network(block: int, t: int, i: str, *, activation: bool) -> str:
    """Entry i of the update; without the activation (xW₁ + b₁)W₂ + b₂, whose neurons before it are the first half."""
    mlp = f"blocks.{block}.mlp"
    return f"{mlp}_out[{t},{i}]" if activation else f"dot({mlp}.pre[{t},:],{mlp}.W_out[:,{i}])+{mlp}.b_out[{i}]"


def through_product(block: int, t: int, i: str) -> str:
    """x(W₁W₂) + (b₁W₂ + b₂) at entry i, the matrices multiplied first."""
    mlp = f"blocks.{block}.mlp"
    column = f"{mlp}.W_out[:,{i}]"
    return f"dot(blocks.{block}.ln2.out[{t},:],dot({mlp}.W_in,{column}))+dot({mlp}.b_in,{column})+{mlp}.b_out[{i}]"


def farthest(run: Run, block: int, t: int, *, activation: bool) -> View:
    """The entry where the two ways differ most, the difference taken so that it is positive."""
    mlp = f"blocks.{block}.mlp"
    x, w_in, b_in, w_out, b_out = (
        run.tensor(name).numpy().astype(np.float64)
        for name in (f"blocks.{block}.ln2.out", f"{mlp}.W_in", f"{mlp}.b_in", f"{mlp}.W_out", f"{mlp}.b_out")
    )
    two = run.values(f"{mlp}_out[{t},:]") if activation else run.values(f"{mlp}.pre[{t},:]") @ w_out + b_out
    i = int(np.abs(two - ((x[t] @ w_in + b_in) @ w_out + b_out)).argmax())
    largest = entry(block, t, i, activation=activation)
    is_positive = run.values(f"calc({largest.difference})") >= 0
    return largest if is_positive else entry(block, t, i, activation=activation, turned=True)
