"""Add a constant to every score: the probabilities stay."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene

LIMIT = 50.0


class Settings(base.Settings):
    """Three scores, and what is added to all of them. The first ones are 0, ln 2 and ln 3."""

    a: float = Field(0.0, ge=-LIMIT, le=LIMIT)
    b: float = Field(0.6931, ge=-LIMIT, le=LIMIT)
    c: float = Field(1.0986, ge=-LIMIT, le=LIMIT)
    add: float = Field(2.0, ge=-LIMIT, le=LIMIT)


@dataclass(frozen=True)
class Score:
    """A score before and after: expressions of itself, of e to its power and of its share."""

    before: tuple[str, str, str]
    after: tuple[str, str, str]


@dataclass(frozen=True)
class View:
    scores: list[Score]
    totals: tuple[str, str]
    factor: str


def view(scene: Scene, s: Settings) -> View:
    scores = (s.a, s.b, s.c)
    plain = [exact(z) for z in scores]
    moved = [f"({z}+{_written(s.add)})" for z in plain]
    before, after = thirds(plain), thirds(moved)
    totals = tuple("+".join(f"exp({z})" for z in zs) for zs in (plain, moved))
    return View(
        [Score(*pair) for pair in zip(before, after, strict=True)], (totals[0], totals[1]), f"exp({_written(s.add)})"
    )


def thirds(scores: list[str]) -> list[tuple[str, str, str]]:
    raised = [f"exp({z})" for z in scores]
    return [(z, e, f"{e}/({'+'.join(raised)})") for z, e in zip(scores, raised, strict=True)]


def exact(z: float) -> str:
    """The score as written; ln 2 and ln 3 rounded to four places mean themselves."""
    return {0.6931: "log(2)", 1.0986: "log(3)"}.get(z, _written(z))


def _written(x: float) -> str:
    return f"({x:g})" if x < 0 else f"{x:g}"


PART = Part(
    "shift", "Add a constant", Settings, view, home="transformer#probabilities", rem=20,
    about="Add the same number to every score and see that no probability moves.",
)  # fmt: skip
