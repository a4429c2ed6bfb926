"""The residual stream: how long its row is, how much each block adds, and how the slope survives on its way back."""

from __future__ import annotations

import math
from itertools import chain

from app.parts.base import Position, Scene, Settings, View, live_part
from app.parts.expressions import length, log_ratio, slope_size, with_and_without_additions

ALIKE = math.log(1.25)  # ratios of slopes that differ by less than a quarter


@live_part("The stream, block by block", home="transformer#add", rem=28)
class Stream(Settings):
    """How much each block adds to a row, and how large the gradient is with and without the additions."""

    t: Position | None = None

    def view(self, scene: Scene) -> View:
        """`layers` are expressions: lengths, with shares of the longest, of the row that enters, of what attention and
        the feed-forward network add; and the size of the slope where the block begins, for this run and for `without`.

        `kept` is the slope's size where block 0 begins over that where the last does, an expression for both runs.
        """
        t = scene.last if self.t is None else self.t
        num, without = with_and_without_additions(scene)
        blocks = [f"blocks.{b}" for b in range(scene.model.config.n_layer)]
        rows = [[f"{block}.{name}" for name in ("resid_pre", "attn_out", "mlp_out")] for block in blocks]
        leaves, first, last = f"{blocks[-1]}.resid_post", rows[0][0], rows[-1][0]
        sizes = {site: float(num.run.tensor(site)[t].norm()) for site in (*chain(*rows), leaves)}
        most = max(sizes.values()) or 1.0
        kept, kept_without = (log_ratio(numbers.run, first, last) for numbers in (num, without))
        return View(
            num=num,
            without=without,
            layers=[
                ([(length(f"{site}[{t},:]"), sizes[site] / most) for site in sites], slope_size(sites[0]))
                for sites in rows
            ],
            leaves=length(f"{leaves}[{t},:]"),
            t=t,
            kept=f"{slope_size(first)}/{slope_size(last)}",
            alike=abs(kept - kept_without) < ALIKE,
            helps=abs(kept) < abs(kept_without),
        )
