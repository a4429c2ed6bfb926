"""A query and a key, multiplied entry by entry: the products and their running total."""

from __future__ import annotations

import numpy as np

from app.parts.attention import pair_of
from app.parts.base import Block, Head, Position, Scene, Settings, View, live_part
from app.render import charts, numbers
from app.request.state import LONG_QUERY

LISTED = 8  # the largest products, as a table


@live_part("A running total", home="math#dot", rem=48)
class Dot(Settings):
    """A real query and a real key: every product, and the total as it climbs and falls."""

    # Left out: the largest weight from the last token to an earlier one.
    block: Block | None = None
    head: Head | None = None
    key: Position | None = None

    def view(self, scene: Scene) -> View:
        """Expressions: `climbs` and `falls` are the positive and the negative products together, `agree` counts
        the positive ones.

        `as_text`: the text is so long that a link in each of its tokens would swamp the page.
        """
        pair = pair_of(scene, self.block, self.head, self.key)
        query = scene.run.tensor(pair.site("q"))[pair.q, pair.head].numpy().astype(np.float64)
        products = query * scene.run.tensor(pair.site("k"))[pair.k, pair.head].numpy().astype(np.float64)
        largest = np.sort(np.argsort(-np.abs(products), kind="stable")[:LISTED]).tolist()
        listed = [f"{pair.query}*{pair.key}".replace(":]", f"{i}]") for i in largest]
        label = (
            f"{len(products)} products of the query at position {pair.q} and the key at position {pair.k} as bars; "
            f"their running total ends at {numbers.brief(float(products.sum()))}"
        )
        most = float(np.abs(products).max())
        climbs, falls = pair.halves
        return View(
            pair=pair,
            picture=charts.running_total(products, charts.Listed(0, len(products)), label),
            products=[(i, charts.signed_bar(float(products[i]), most, 96)) for i in largest],
            rest=f"{pair.dot}-({'+'.join(f'({product})' for product in listed)})",
            n=len(products),
            agree=f"sum(positive({pair.query}*{pair.key}))",
            climbs=climbs,
            falls=falls,
            as_text=len(scene.state.query()) > LONG_QUERY,
        )
