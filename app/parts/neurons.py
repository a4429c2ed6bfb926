"""The neurons of one block that fired most at one position, each with the row of numbers that it adds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.render import heat
from model.errors import SettingError

TOP = 8
TOKENS = 3


class Settings(base.Settings):
    """Which block, and which position (left out: the last)."""

    block: int = Field(0, ge=0, le=999)
    t: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class Neuron:
    """`pre`, `post` are addresses, `size` the expression of the length of what it adds; `row` is that as a picture.

    `toward` are the tokens whose rows of the table agree most with what it adds.
    """

    n: int
    pre: str
    post: str
    size: str
    row: Markup
    toward: list[Markup]


@dataclass(frozen=True)
class View:
    t: int
    neurons: list[Neuron]
    active: str
    d_mlp: int
    blocks: list[tuple[int, str]]
    tokens: list[tuple[int, Markup]]
    relu: bool


def view(scene: Scene, s: Settings) -> View:
    c = scene.model.config
    t, block = place_of(scene, s.block, s.t)
    post = scene.run.tensor(f"blocks.{block}.mlp.post")[t].numpy()
    rows = scene.run.tensor(f"blocks.{block}.mlp.W_out").numpy()
    order = np.argsort(-post, kind="stable")[:TOP]
    added = rows[order] * post[order, None]
    scale = heat.Scale(float(np.abs(added).max()))
    used = scene.run.tensor("W_E").numpy()[: scene.model.tokenizer.n_vocab]
    agree = added @ used.T
    site = f"blocks.{block}.mlp"
    neurons = [
        Neuron(
            int(n), f"{site}.pre[{t},{n}]", f"{site}.post[{t},{n}]",
            f"{site}.post[{t},{n}]*sqrt(sum({site}.W_out[{n},:]*{site}.W_out[{n},:]))",
            heat.picture(scale.steps(added[i : i + 1]), name=f"neuron-{n}"),
            [scene.num.token(int(v)) for v in np.argsort(-agree[i], kind="stable")[:TOKENS]] if post[n] > 0 else [],
        )
        for i, n in enumerate(order.tolist())
    ]  # fmt: skip
    return View(
        t, neurons, f"sum(positive({site}.post[{t},:]))", c.d_mlp, [(b, str(b)) for b in range(c.n_layer)],
        [(p, scene.num.at(p)) for p in range(scene.run.n_pos)], c.act == "relu",
    )  # fmt: skip


def place_of(scene: Scene, block: int, t: int | None) -> tuple[int, int]:
    """The position and block asked for, checked against this run."""
    layers, last = scene.model.config.n_layer - 1, scene.last
    if block > layers:
        raise SettingError("block", f"There is no block {block}: this model's are 0 to {layers}.", "Write block=0.")
    if t is not None and t > last:
        raise SettingError("t", f"There is no position {t}: this text's are 0 to {last}.", "Write t=0 for the first.")
    return last if t is None else t, block


PART = Part(
    "neurons", "The neurons that fired most", Settings, view, home="transformer#feed-forward", rem=32,
    about="The most active neurons at a position of your sentence, each with the row of numbers that it adds.",
)  # fmt: skip
