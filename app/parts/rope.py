"""RoPE in the plane: a query and a key turned by an angle for each position; only their distance counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene

SIDE, REACH = 280, 3.0
QUERY, KEY = (2.0, 1.0), (1.5, -1.0)  # before they are turned
MOST = 30


class Settings(base.Settings):
    """Where the query and the key stand, and the angle for one position, in degrees."""

    i: int = Field(7, ge=0, le=MOST)
    j: int = Field(3, ge=0, le=MOST)
    angle: float = Field(20.0, ge=0, le=180)


@dataclass(frozen=True)
class Pair:
    """A query at `i` and a key at `j`; `dot` is the expression of their dot product."""

    i: int
    j: int
    dot: str
    here: bool


@dataclass(frozen=True)
class View:
    q: tuple[float, float]
    k: tuple[float, float]
    q0: tuple[float, float]
    k0: tuple[float, float]
    q_at: tuple[str, str]
    k_at: tuple[str, str]
    same: list[Pair]
    other: list[Pair]
    side: int


def view(scene: Scene, s: Settings) -> View:
    step = math.radians(s.angle)
    q, k = turned(QUERY, s.i * step), turned(KEY, s.j * step)
    lowest = min(s.i, s.j)
    same = sorted({0, lowest, lowest + 5, lowest + 10})
    pairs = [(s.i - lowest + n, s.j - lowest + n) for n in same]
    others = [(s.i + 1, s.j), (s.i, s.j + 1)]
    return View(
        q=place(q), k=place(k), q0=place(QUERY), k0=place(KEY),
        q_at=parts(QUERY, s.i * step), k_at=parts(KEY, s.j * step),
        same=[Pair(i, j, dot(i, j, step), (i, j) == (s.i, s.j)) for i, j in pairs],
        other=[Pair(i, j, dot(i, j, step), False) for i, j in others],
        side=SIDE,
    )  # fmt: skip


def turned(v: tuple[float, float], by: float) -> tuple[float, float]:
    c, s = math.cos(by), math.sin(by)
    return v[0] * c - v[1] * s, v[0] * s + v[1] * c


def parts(v: tuple[float, float], by: float) -> tuple[str, str]:
    """The turned arrow's two numbers as expressions: x cos − y sin, x sin + y cos."""
    c, s, x, y = (_written(n) for n in (math.cos(by), math.sin(by), *v))
    return f"{x}*{c}-{y}*{s}", f"{x}*{s}+{y}*{c}"


def dot(i: int, j: int, step: float) -> str:
    (qx, qy), (kx, ky) = parts(QUERY, i * step), parts(KEY, j * step)
    return f"({qx})*({kx})+({qy})*({ky})"


def place(v: tuple[float, float]) -> tuple[float, float]:
    half = SIDE / 2
    return round(half + v[0] / REACH * (half - 8), 1), round(half - v[1] / REACH * (half - 8), 1)


def _written(x: float) -> str:
    text = f"{x:.12f}".rstrip("0").rstrip(".")
    return f"({text})" if text.startswith("-") else text


PART = Part(
    "rope", "Turning instead of adding", Settings, view, home="transformer#where", rem=28,
    about="Move a query and a key along the text: while their distance stays, so does their dot product.",
)  # fmt: skip
