"""Take the bend away and the two matrices of a feed-forward network are one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.parts.neurons import place_of
from model import Run

SHOWN = 6


class Settings(base.Settings):
    """With or without the bend, in which block, at which position (left out: the last)."""

    bend: bool = False
    block: int = Field(0, ge=0, le=999)
    t: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class Entry:
    """An entry of the update, as expressions: through both matrices, through their product, and the difference."""

    i: int
    two: str
    one: str
    difference: str


@dataclass(frozen=True)
class View:
    """`largest` is the entry where the two ways differ most. `usual`: the mean size of an entry, an expression."""

    entries: list[Entry]
    t: int
    largest: Entry
    usual: str
    d_model: int
    d_mlp: int
    bend: str
    blocks: list[tuple[int, str]]


def view(scene: Scene, s: Settings) -> View:
    c = scene.model.config
    t, block = place_of(scene, s.block, s.t)
    two = f"blocks.{block}.mlp_out[{t},:]" if s.bend else through_both(block, t, ":")
    return View(
        [entry(block, t, i, bent=s.bend) for i in range(min(SHOWN, c.d_model))], t,
        farthest(scene.run, block, t, bent=s.bend), f"mean(sqrt(({two})*({two})))",
        c.d_model, c.d_mlp, "ReLU" if c.act == "relu" else "GELU", [(b, str(b)) for b in range(c.n_layer)],
    )  # fmt: skip


def entry(block: int, t: int, i: int, *, bent: bool, from_one: bool = False) -> Entry:
    """`from_one` turns the difference around."""
    two = f"blocks.{block}.mlp_out[{t},{i}]" if bent else through_both(block, t, str(i))
    one = through_one(block, t, str(i))
    return Entry(i, two, one, f"{one}-({two})" if from_one else f"{two}-({one})")


def through_both(block: int, t: int, i: str) -> str:
    """(xW₁ + b₁)W₂ + b₂ at entry i, nothing between the matrices: the neurons before the bend are the first half."""
    mlp = f"blocks.{block}.mlp"
    return f"dot({mlp}.pre[{t},:],{mlp}.W_out[:,{i}])+{mlp}.b_out[{i}]"


def through_one(block: int, t: int, i: str) -> str:
    """x(W₁W₂) + (b₁W₂ + b₂) at entry i, the matrices multiplied first."""
    mlp = f"blocks.{block}.mlp"
    column = f"{mlp}.W_out[:,{i}]"
    return f"dot(blocks.{block}.ln2.out[{t},:],dot({mlp}.W_in,{column}))+dot({mlp}.b_in,{column})+{mlp}.b_out[{i}]"


def farthest(run: Run, block: int, t: int, *, bent: bool) -> Entry:
    """The entry where the two ways differ most, the difference taken so that it is positive."""
    mlp = f"blocks.{block}.mlp"
    x, w_in, b_in, w_out, b_out = (
        run.tensor(name).numpy().astype(np.float64)
        for name in (f"blocks.{block}.ln2.out", f"{mlp}.W_in", f"{mlp}.b_in", f"{mlp}.W_out", f"{mlp}.b_out")
    )
    two = run.values(f"blocks.{block}.mlp_out[{t},:]") if bent else run.values(f"{mlp}.pre[{t},:]") @ w_out + b_out
    i = int(np.abs(two - ((x[t] @ w_in + b_in) @ w_out + b_out)).argmax())
    found = entry(block, t, i, bent=bent)
    return found if run.values(f"calc({found.difference})") >= 0 else entry(block, t, i, bent=bent, from_one=True)


PART = Part(
    "collapse", "Without the bend, two are one", Settings, view, home="transformer#bend", rem=28,
    about="Replace the bend by nothing and compare the two matrices with the one that they collapse into.",
)  # fmt: skip
