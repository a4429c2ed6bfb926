"""The score matrix of one head, with the mask on or off: what each position may look at, and the weights it gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.render import heat, numbers
from model.errors import SettingError

MOST = 16  # positions shown


class Settings(base.Settings):
    """Which head, whether the future is masked, and whether scores or weights are shown."""

    block: int = Field(0, ge=0, le=999)
    head: int = Field(0, ge=0, le=999)
    mask: bool = True
    show: Literal["scores", "weights"] = "weights"
    start: int = Field(0, ge=0)


@dataclass(frozen=True)
class View:
    """`cells[query][key]` are linked numbers. `future` is the largest share that a position gives to its future, an
    expression; "" where there is none.
    """

    queries: list[tuple[int, Markup]]
    keys: list[tuple[int, Markup]]
    cells: list[list[Markup]]
    future: str
    future_at: int
    blocks: list[tuple[int, str]]
    heads: list[tuple[int, str]]
    hidden: int
    root: int


def view(scene: Scene, s: Settings) -> View:
    c, n = scene.model.config, scene.run.n_pos
    check_head(scene, s.block, s.head)
    if s.start >= n:
        raise SettingError("start", f"start is {s.start}, but the text's last position is {n - 1}.", "Write start=0.")
    shown = range(s.start, min(n, s.start + MOST))
    raw = scene.run.tensor(f"blocks.{s.block}.attn.qk").numpy()[s.head].astype(np.float64) / math.sqrt(c.d_head)
    scores = np.where(np.triu(np.ones((n, n), dtype=bool), 1) & s.mask, -np.inf, raw)
    raised = np.exp(scores - scores.max(1, keepdims=True))
    weights = raised / raised.sum(1, keepdims=True)
    later = np.triu(weights, 1).sum(1)
    table = scores if s.show == "scores" else weights
    finite = np.abs(table[np.isfinite(table)])
    scale = heat.Scale(float(finite.max()), heat.exponent_of("pattern" if s.show == "weights" else "scores"))
    steps = scale.steps(table)
    cells = [[cell(scene, s, q, k, float(table[q, k]), int(steps[q, k])) for k in shown] for q in shown]
    tokens = [(t, scene.num.at(t)) for t in shown]
    return View(
        queries=tokens, keys=tokens, cells=cells, future=ahead(scene, s, int(later.argmax())),
        future_at=int(later.argmax()),
        blocks=[(b, str(b)) for b in range(c.n_layer)], heads=[(h, str(h)) for h in range(c.n_head)],
        hidden=n - len(shown), root=c.d_head,
    )  # fmt: skip


def check_head(scene: Scene, block: int, head: int) -> None:
    """A clear word where the model has no such head."""
    c = scene.model.config
    if block >= c.n_layer:
        raise SettingError(
            "block", f"There is no block {block}: this model's are 0 to {c.n_layer - 1}.", "Write block=0."
        )
    if head >= c.n_head:
        raise SettingError("head", f"There is no head {head}: this model's are 0 to {c.n_head - 1}.", "Write head=0.")


def cell(scene: Scene, s: Settings, q: int, k: int, x: float, step: int) -> Markup:
    """A number of the matrix. With the mask it is the run's own; without, arithmetic over the raw dot products."""
    at = f"{s.head},{q},{k}"
    site, root = f"blocks.{s.block}.attn", f"sqrt({scene.model.config.d_head})"
    if s.mask:
        address = f"{site}.{'scores' if s.show == 'scores' else 'pattern'}[{at}]"
    elif s.show == "scores":
        address = f"calc({site}.qk[{at}]/{root})"
    else:
        address = f"calc({unmasked(scene, s, q, str(k))}/sum({unmasked(scene, s, q, ':')}))"
    text = f"{100 * x:.0f}" if s.show == "weights" else numbers.fixed(x, 1)
    hidden = " masked" if s.mask and k > q else ""
    return scene.num.shown(address, text, css=f"num heat-cell {heat.css(step)}{hidden}")


def unmasked(scene: Scene, s: Settings, q: int, keys: str) -> str:
    """e^(score − largest) of a query with some keys, later ones too, as an expression."""
    row = f"blocks.{s.block}.attn.qk[{s.head},{q},{{}}]"
    return f"exp(({row.format(keys)}-max({row.format(':')}))/sqrt({scene.model.config.d_head}))"


def ahead(scene: Scene, s: Settings, q: int) -> str:
    """The share that a query would give to the keys after it."""
    if q + 1 >= scene.run.n_pos:
        return ""
    return f"sum({unmasked(scene, s, q, f'{q + 1}:')})/sum({unmasked(scene, s, q, ':')})"


PART = Part(
    "mask", "The mask, on and off", Settings, view, home="transformer#mask", rem=36,
    about="One head’s matrix of scores or weights, with the future masked and unmasked.",
)  # fmt: skip
