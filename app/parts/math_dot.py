"""A query and a key, multiplied entry by entry: the products and their running total."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.parts.math_aim import Pair, pair
from app.render import charts, numbers
from app.request.state import LONG_QUERY

LISTED = 8  # the largest products, as a table


class Settings(base.Settings):
    """The head, and the position of the key. Left out: the largest weight from the last token to an earlier one."""

    block: int | None = Field(None, ge=0, le=999)
    head: int | None = Field(None, ge=0, le=999)
    key: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class Product:
    """One entry: addresses of its query and key, expressions of their product and of the total up to it."""

    i: int
    query: str
    key: str
    product: str
    total: str
    bar: Markup


@dataclass(frozen=True)
class View:
    """Expressions: `climbs` and `falls` are the positive and the negative products together, `agree` counts the first.

    `as_text`: the text is so long that a link in each of its tokens would swamp the page.
    """

    pair: Pair
    picture: Markup
    products: list[Product]
    rest: str
    n_rest: int
    agree: str
    n: int
    climbs: str
    falls: str
    blocks: list[tuple[int, str]]
    heads: list[tuple[int, str]]
    as_text: bool


def view(scene: Scene, s: Settings) -> View:
    two, c = pair(scene, s.block, s.head, s.key), scene.model.config
    query = scene.run.tensor(two.site("q"))[two.q, two.head].numpy().astype(np.float64)
    key = scene.run.tensor(two.site("k"))[two.k, two.head].numpy().astype(np.float64)
    products = query * key
    first = np.sort(np.argsort(-np.abs(products), kind="stable")[:LISTED])
    rows = [row(two, int(i), products) for i in first]
    listed = "+".join(f"({one.product})" for one in rows)
    climbs, falls = halves(two)
    return View(
        two, charts.running_total(products, charts.Listed(0, len(products)), label(two, products)), rows,
        f"{two.dot}-({listed})", len(products) - len(rows), f"sum(positive({two.query}*{two.key}))", len(products),
        climbs, falls,
        [(b, str(b)) for b in range(c.n_layer)], [(h, str(h)) for h in range(c.n_head)],
        len(scene.state.query()) > LONG_QUERY,
    )  # fmt: skip


def row(two: Pair, i: int, products: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Product:
    query, key = (at.replace(":]", f"{i}]") for at in (two.query, two.key))
    bar = charts.signed_bar(float(products[i]), float(np.abs(products).max()), 96)
    return Product(i, query, key, f"{query}*{key}", f"partial({two.dot},0:{i + 1})", bar)


def halves(two: Pair) -> tuple[str, str]:
    """The sum of the positive products, (Σx + Σ|x|)/2, and of the negative ones, |x| being √x²."""
    product = f"{two.query}*{two.key}"
    size = f"sum(sqrt({product}*{product}))"
    return f"(sum({product})+{size})/2", f"(sum({product})-{size})/2"


def label(two: Pair, products: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return (
        f"{len(products)} products of the query at position {two.q} and the key at position {two.k} as bars; "
        f"their running total ends at {numbers.brief(float(products.sum()))}"
    )


PART = Part(
    "math_dot", "A running total", Settings, view, home="math#dot", rem=48,
    about="A real query and a real key: every product, and the total as it climbs and falls.",
)  # fmt: skip
