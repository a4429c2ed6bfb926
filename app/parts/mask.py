"""The score matrix of one head, with the mask on or off: what each position may look at, and the weights it gives."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from markupsafe import Markup

from app.parts.base import Block, Head, Position, Scene, Settings, View, live_part
from app.render import heat, numbers

MOST = 16  # positions shown


@live_part("The mask, on and off", home="transformer#mask", rem=36)
class Mask(Settings):
    """One head’s matrix of scores or weights, with the future masked and unmasked."""

    block: Block = 0
    head: Head = 0
    mask: bool = True
    show: Literal["scores", "weights"] = "weights"
    start: Position = 0

    def view(self, scene: Scene) -> View:
        """`cells[query][key]` are linked numbers. `future` is the largest share that a position gives to its future, an
        expression; "" where there is none.
        """
        scores = self.scores(scene)
        raised = np.exp(scores - scores.max(1, keepdims=True))
        weights = raised / raised.sum(1, keepdims=True)
        table, name = (scores, "scores") if self.show == "scores" else (weights, "pattern")
        scale = heat.Scale(
            float(np.abs(table[np.isfinite(table)]).max()), heat.exponent_of("share" if name == "pattern" else "any")
        )
        steps = scale.steps(table)
        positions = range(self.start, min(len(table), self.start + MOST))
        looks_ahead = int(np.triu(weights, 1).sum(1).argmax())
        return View(
            positions=positions,
            cells=[[self.cell(q, k, table[q, k], steps[q, k], scene) for k in positions] for q in positions],
            future=self.ahead(scene, looks_ahead),
            future_at=looks_ahead,
            hidden=len(table) - len(positions),
            page=MOST,
        )

    def scores(self, scene: Scene) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Scores [query, key], masked or not."""
        qk = scene.run.tensor(f"blocks.{self.block}.attn.qk").numpy()[self.head].astype(np.float64)
        future = np.triu(np.ones(qk.shape, dtype=bool), 1)
        return np.where(future & self.mask, -np.inf, qk / math.sqrt(scene.model.config.d_head))

    def cell(self, q: int, k: int, x: float, step: int, scene: Scene) -> Markup:
        """A number of the matrix. With the mask it is the run's own; without, arithmetic over the raw dot products."""
        at, site = f"{self.head},{q},{k}", f"blocks.{self.block}.attn"
        if self.mask:
            address = f"{site}.{'scores' if self.show == 'scores' else 'pattern'}[{at}]"
        elif self.show == "scores":
            address = f"calc({site}.qk[{at}]/sqrt({scene.model.config.d_head}))"
        else:
            address = f"calc({self.unmasked(scene, q, str(k))}/sum({self.unmasked(scene, q, ':')}))"
        text = f"{100 * x:.0f}" if self.show == "weights" else numbers.fixed(x, 1)
        hidden = " masked" if self.mask and k > q else ""
        return scene.num.shown(address, text, css=f"num heat-cell {heat.css(int(step))}{hidden}")

    def unmasked(self, scene: Scene, q: int, keys: str) -> str:
        """e^(score − largest) of a query with some keys, later ones too, as an expression."""
        row = f"blocks.{self.block}.attn.qk[{self.head},{q},{{}}]"
        return f"exp(({row.format(keys)}-max({row.format(':')}))/sqrt({scene.model.config.d_head}))"

    def ahead(self, scene: Scene, q: int) -> str:
        """The share that a query would give to the keys after it."""
        if q + 1 >= scene.run.n_pos:
            return ""
        return f"sum({self.unmasked(scene, q, f'{q + 1}:')})/sum({self.unmasked(scene, q, ':')})"
