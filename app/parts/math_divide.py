"""One head's raw scores, their gaps, and the weights that they make with and without the division by √d."""

from __future__ import annotations

import numpy as np

from app.parts.attention import Pair, pair_of, share, without_root
from app.parts.base import Block, Head, Scene, Settings, View, live_part

LISTED = 16  # keys, the best matches first


@live_part("With and without ÷ √d", home="math#divide", rem=40)
class Divide(Settings):
    """One head’s raw scores, and the weights that softmax makes of them divided by √d and not divided."""

    # Left out: the head with the largest weight from the last token to an earlier one.
    block: Block | None = None
    head: Head | None = None

    def view(self, scene: Scene) -> View:
        """`moves` are the slopes a(1 − a) of the largest weight along its own score, without and with the division."""
        pair = pair_of(scene, self.block, self.head)
        raw = pair.raw(scene.run)
        plain = np.exp(raw - raw.max())
        plain = plain / plain.sum()
        weights = scene.run.tensor(pair.site("pattern"))[pair.head, pair.q].numpy().astype(np.float64)
        order = [int(k) for k in np.argsort(-raw, kind="stable")]
        keys = [key(scene, pair, k, (float(plain[k]), float(weights[k]))) for k in order[:LISTED]]
        first = keys[0]
        return View(
            pair=pair,
            keys=keys,
            n_rest=len(order) - len(keys),
            rest_plain=f"1-({'+'.join(f'({one.plain})' for one in keys)})",
            rest=f"1-({'+'.join(one.weight for one in keys)})",
            first_plain=share(scene.num, first.plain, "num live"),
            moves=(f"({first.plain})*(1-{first.plain})", f"{first.weight}*(1-{first.weight})"),
            blend=bool(weights.max() < plain.max()),
        )


def key(scene: Scene, pair: Pair, k: int, shares: tuple[float, float]) -> View:
    """A key: the address of its raw score, expressions of its gap to the best, and its weight both ways."""
    at = pair.at("qk", k)
    plain = without_root(pair.row, at)
    return View(
        k=k,
        raw=at,
        gap=f"{at}-max({pair.row})",
        plain=plain,
        plain_shown=share(scene.num, plain),
        divided=pair.at("scores", k),
        weight=pair.at("pattern", k),
        shares=shares,
    )
