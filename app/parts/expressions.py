"""Arithmetic that several live parts write, as text that `num.calc` reads; gradients with and without the additions."""

from __future__ import annotations

import math

from app.parts.base import Scene
from app.parts.numbers import Numbers
from model import Run
from model.address.patch import NO_ADDITIONS


def written(x: float) -> str:
    """A number inside an expression."""
    return f"({x:g})" if x < 0 else f"{x:g}"


def length(row: str) -> str:
    """√Σx² of a range."""
    return f"sqrt(sum({row}*{row}))"


def softmax(scores: list[str]) -> list[str]:
    """The share of each of a few scores."""
    raised = [f"exp({z})" for z in scores]
    return [f"{e}/({'+'.join(raised)})" for e in raised]


def with_and_without_additions(scene: Scene) -> tuple[Numbers, Numbers]:
    """The numbers of the scene's run, and of the same weights with x = f(x) in place of x = x + f(x).

    The page where they open is the part's own where it stands alone, so its run may be either of the two.
    """
    plain = scene.state.change(*(change for change in scene.state.changes if change != NO_ADDITIONS))
    without = plain.change(*plain.changes, NO_ADDITIONS)
    if plain == scene.state:
        return scene.num, scene.numbers_of(without)
    return scene.numbers_of(plain), scene.numbers_of(without)


def slope_size(site: str) -> str:
    """The size of ∂loss/∂site over all positions, as an expression."""
    return length(f"{site}[:,:].grad")


def log_ratio(run: Run, first: str, last: str) -> float:
    """log of the slope's size at one site over that at another; a size of 0 counts as 10⁻³⁰."""
    sizes = (float(run.gradient(site).norm()) or 1e-30 for site in (first, last))
    return math.log(next(sizes)) - math.log(next(sizes))
