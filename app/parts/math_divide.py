"""One head's raw scores, their gaps, and the weights that they make with and without the division by √d."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.parts.math_aim import (
    Pair,
    pair,
    share,
    without_root,
)

LISTED = 16  # keys, the best matches first


class Settings(base.Settings):
    """The head. Left out: the one with the largest weight from the last token to an earlier one."""

    block: int | None = Field(None, ge=0, le=999)
    head: int | None = Field(None, ge=0, le=999)


@dataclass(frozen=True)
class Key:
    """A key: the address of its raw score, expressions of its gap to the best, and its weight both ways."""

    k: int
    token: Markup
    raw: str
    gap: str
    plain: Markup
    divided: str
    weight: str
    widths: tuple[float, float]


@dataclass(frozen=True)
class View:
    """`moves` are the slopes a(1 − a) of the largest weight along its own score, without and with the division."""

    pair: Pair
    keys: list[Key]
    n_rest: int
    rest_plain: str
    rest: str
    first: Key
    first_plain: Markup
    moves: tuple[str, str]
    blend: bool
    blocks: list[tuple[int, str]]
    heads: list[tuple[int, str]]


def view(scene: Scene, s: Settings) -> View:
    two, c = pair(scene, s.block, s.head), scene.model.config
    raw = scene.run.tensor(two.site("qk"))[two.head, two.q, : two.q + 1].numpy().astype(np.float64)
    plain = np.exp(raw - raw.max())
    plain = plain / plain.sum()
    weights = scene.run.tensor(two.site("pattern"))[two.head, two.q].numpy().astype(np.float64)
    order = [int(k) for k in np.argsort(-raw, kind="stable")]
    keys, expressions = [], list[str]()
    for k in order[:LISTED]:
        at = two.at("qk", k)
        expressions.append(without_root(two.row, at))
        keys.append(
            Key(k, scene.num.at(k), at, f"{at}-max({two.row})", share(scene.num, expressions[-1]), two.at("scores", k),
                two.at("pattern", k), (round(100 * float(plain[k]), 2), round(100 * float(weights[k]), 2)))
        )  # fmt: skip
    first = keys[0]
    return View(
        two, keys, len(order) - len(keys), rest([f"({one})" for one in expressions]),
        rest([one.weight for one in keys]),
        first, share(scene.num, expressions[0], "num live"),
        (f"({expressions[0]})*(1-{expressions[0]})", f"{first.weight}*(1-{first.weight})"),
        bool(weights.max() < plain.max()),
        [(b, str(b)) for b in range(c.n_layer)], [(h, str(h)) for h in range(c.n_head)],
    )  # fmt: skip


def rest(shares: list[str]) -> str:
    """What is left of 1."""
    return f"1-({'+'.join(shares)})"


PART = Part(
    "math_divide", "With and without ÷ √d", Settings, view, home="math#divide", rem=40,
    about="One head’s raw scores, and the weights that softmax makes of them divided by √d and not divided.",
)  # fmt: skip
