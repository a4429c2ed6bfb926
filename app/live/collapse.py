"""Take the bend away and the two matrices of a feed-forward network are one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from app.live import base
from app.live.base import Part, Scene
from app.live.neurons import place_of

SHOWN = 6


class Settings(base.Settings):
    """With or without the bend, in which block, at which position (left out: the last)."""

    bend: bool = False
    block: int = Field(0, ge=0, le=999)
    t: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class Entry:
    """`two` is the address of the entry through both matrices, `one` its value through their product."""

    i: int
    two: str
    one: float
    difference: float


@dataclass(frozen=True)
class View:
    entries: list[Entry]
    t: int
    largest: float
    typical: float
    d_model: int
    d_mlp: int
    bend: str
    blocks: list[tuple[int, str]]


def view(scene: Scene, s: Settings) -> View:
    c = scene.model.config
    t, block = place_of(scene, s.block, s.t)
    site = f"blocks.{block}.mlp"
    x, w_in, b_in, w_out, b_out = (
        scene.run.tensor(name).numpy().astype(np.float64)
        for name in (f"blocks.{block}.ln2.out", f"{site}.W_in", f"{site}.b_in", f"{site}.W_out", f"{site}.b_out")
    )
    one = x[t] @ (w_in @ w_out) + (b_in @ w_out + b_out)  # the product of the matrices first
    if s.bend:
        two = scene.run.tensor(f"blocks.{block}.mlp_out").numpy()[t].astype(np.float64)
        addresses = [f"blocks.{block}.mlp_out[{t},{i}]" for i in range(c.d_model)]
    else:
        two = scene.run.tensor(f"{site}.pre").numpy()[t].astype(np.float64) @ w_out + b_out
        addresses = [f"calc(sum({site}.pre[{t},:]*{site}.W_out[:,{i}])+{site}.b_out[{i}])" for i in range(c.d_model)]
    apart = two - one
    shown = range(min(SHOWN, c.d_model))
    return View(
        [Entry(i, addresses[i], float(one[i]), float(apart[i])) for i in shown], t, float(np.abs(apart).max()),
        float(np.abs(one).mean()), c.d_model, c.d_mlp, "ReLU" if c.act == "relu" else "GELU",
        [(b, str(b)) for b in range(c.n_layer)],
    )  # fmt: skip


PART = Part(
    "collapse", "Without the bend, two are one", Settings, view, home="transformer#bend", rem=28,
    about="Replace the bend by nothing and compare the two matrices with the one that they collapse into.",
)  # fmt: skip
