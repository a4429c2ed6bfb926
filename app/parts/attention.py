"""What a head looks at: its strongest look back, and one query with its keys."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.parts.base import Scene
from app.parts.numbers import Numbers
from app.render import numbers
from model import Run


@dataclass(frozen=True)
class Look:
    """The strongest look back from the last token: a head, and the earlier position it looks at."""

    block: int
    head: int
    to: int
    is_target: bool


def strongest_look(run: Run, *, has_start: bool) -> Look | None:
    """The head and the earlier position with the largest weight from the last token, the start token left out."""
    first, last = int(has_start), run.n_pos - 1
    if last <= first:
        return None
    blocks = range(run.model.config.n_layer)
    rows = np.stack(  # copies: a view would hold every block's whole pattern
        [run[f"blocks.{b}.attn.pattern[:,{last},{first}:{last}]"].copy() for b in blocks]
    )
    block, head, key = (int(i) for i in np.unravel_index(int(rows.argmax()), rows.shape))
    return Look(block, head, key + first, run.tokens[key + first] == run.target and not run.is_sequence)


@dataclass(frozen=True)
class Pair:
    """The query of the last position `q` and the key of position `k`, in one head."""

    block: int
    head: int
    q: int
    k: int

    def site(self, name: str) -> str:
        return f"blocks.{self.block}.attn.{name}"

    @property
    def query(self) -> str:
        return f"{self.site('q')}[{self.q},{self.head},:]"

    @property
    def key(self) -> str:
        return f"{self.site('k')}[{self.k},{self.head},:]"

    @property
    def dot(self) -> str:
        return self.at("qk", self.k)

    @property
    def row(self) -> str:
        """The raw scores of this query with every key up to its own."""
        return f"{self.site('qk')}[{self.head},{self.q},0:{self.q + 1}]"

    def at(self, name: str, k: int) -> str:
        """A number of the head's matrices (`qk`, `scores`, `pattern`) for another key."""
        return f"{self.site(name)}[{self.head},{self.q},{k}]"

    def raw(self, run: Run) -> NDArray[np.float64]:
        """The raw scores [key] of this query with every key up to its own."""
        return run.tensor(self.site("qk"))[self.head, self.q, : self.q + 1].numpy().astype(np.float64)

    @property
    def halves(self) -> tuple[str, str]:
        """The sum of the positive products, (Σx + Σ|x|)/2, and of the negative ones, |x| being √x²."""
        product = f"{self.query}*{self.key}"
        size = f"sum(sqrt({product}*{product}))"
        return f"(sum({product})+{size})/2", f"(sum({product})-{size})/2"


def pair_of(scene: Scene, block: int | None = None, head: int | None = None, key: int | None = None) -> Pair:
    """The pair asked for. Left out: the head, and the earlier token that is not the start, with the largest weight."""
    last, first = scene.last, int(scene.state.bos)
    if block is None and head is None:
        look = strongest_look(scene.run, has_start=scene.state.bos)
        block, head = (look.block, look.head) if look else (0, 0)
    block, head = block or 0, head or 0
    if key is None:
        weights = scene.run.tensor(f"blocks.{block}.attn.pattern")[head, last]
        key = first + int(weights[first:last].argmax()) if last > first else last
    return Pair(block, head, last, key)


def share(num: Numbers, expression: str, css: str = "num") -> Markup:
    """A share as a link; of one near 1 as many digits as it takes to see what is missing: 99.9967 %."""
    x = num.value(f"calc({expression})")
    text = numbers.percent(x)
    if 0.9995 <= x < 1 - 1e-12:
        text = f"{numbers.fixed(100 * x, min(math.ceil(-math.log10(100 * (1 - x))) + 1, 9))} %"
    return num.shown(f"calc({expression})", text, css=css)


def without_root(row: str, at: str) -> str:
    """Softmax of raw dot products, not divided by √d, as an expression."""
    return f"exp({at}-max({row}))/sum(exp({row}-max({row})))"
