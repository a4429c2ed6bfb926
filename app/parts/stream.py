"""The residual stream: how long its row is, how much each block adds, and how the slope survives on its way back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import Field

from app.parts import base
from app.parts.base import Numbers, Part, Scene
from app.parts.neurons import place_of
from model import Run
from model.address.patch import NO_ADDITIONS


class Settings(base.Settings):
    """The position whose row is measured; left out, the last."""

    t: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class Layer:
    """Lengths as expressions: of the row that enters, of what attention and the feed-forward network add.

    `slope` is the size of ∂loss/∂(what enters), over all positions: in this run, and in the one that does not add.
    """

    block: int
    enters: str
    attention: str
    feed_forward: str
    slope: str
    widths: tuple[float, float, float]


@dataclass(frozen=True)
class View:
    """`num` are the run's numbers, `bare` those of the same weights without the additions.

    `kept` is the slope's size where block 0 begins over that where the last does, an expression for both runs.
    `alike`: the two differ by less than a quarter; `helps`: with the additions it is the nearer to 1.
    """

    num: Numbers
    bare: Numbers
    layers: list[Layer]
    leaves: str
    t: int
    kept: str
    alike: bool
    helps: bool


def view(scene: Scene, s: Settings) -> View:
    t, _ = place_of(scene, 0, s.t)
    num, bare = with_and_without_additions(scene)
    run, blocks = num.run, range(scene.model.config.n_layer)
    sites = [(f"blocks.{b}.resid_pre", f"blocks.{b}.attn_out", f"blocks.{b}.mlp_out") for b in blocks]
    measured = [[float(run.tensor(site)[t].norm()) for site in three] for three in sites]
    leaves = f"blocks.{blocks[-1]}.resid_post"
    most = max(max(map(max, measured)), float(run.tensor(leaves)[t].norm())) or 1.0
    layers = []
    for b, three in enumerate(sites):
        enters, attention, feed_forward = (length(f"{site}[{t},:]") for site in three)
        w0, w1, w2 = (round(100 * x / most, 2) for x in measured[b])
        layers.append(Layer(b, enters, attention, feed_forward, slope_at(three[0]), (w0, w1, w2)))
    first, last = sites[0][0], sites[-1][0]
    kept = [log_ratio(numbers.run, first, last) for numbers in (num, bare)]
    return View(
        num, bare, layers, length(f"{leaves}[{t},:]"), t, f"{slope_at(first)}/{slope_at(last)}",
        abs(kept[0] - kept[1]) < math.log(1.25), abs(kept[0]) < abs(kept[1]),
    )  # fmt: skip


def with_and_without_additions(scene: Scene) -> tuple[Numbers, Numbers]:
    """The numbers of the scene's run, and of the same weights with x = f(x) in place of x = x + f(x).

    The page where they open is the part's own where it stands alone, so its run may be either of the two.
    """
    plain = scene.state.change(*(change for change in scene.state.changes if change != NO_ADDITIONS))
    bare = plain.change(*plain.changes, NO_ADDITIONS)
    if plain == scene.state:
        return scene.num, scene.numbers_of(bare)
    return scene.numbers_of(plain), scene.numbers_of(bare)


def length(row: str) -> str:
    """√Σx² of a range."""
    return f"sqrt(sum({row}*{row}))"


def slope_at(site: str) -> str:
    """The size of ∂loss/∂site over all positions."""
    return length(f"{site}[:,:].grad")


def log_ratio(run: Run, first: str, last: str) -> float:
    """log of the slope's size at one site over that at another; a size of 0 counts as 10⁻³⁰."""
    sizes = (float(run.gradient(site).norm()) or 1e-30 for site in (first, last))
    return math.log(next(sizes)) - math.log(next(sizes))


PART = Part(
    "stream", "The stream, block by block", Settings, view, home="transformer#add", rem=28,
    about="How much each block adds to a row, and how large the gradient is with and without the additions.",
)  # fmt: skip
