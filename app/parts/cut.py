"""Top-k and top-p: which tokens stay, what was cut, the rest rescaled, and one of them drawn."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene, formatted
from model.runtime.choice_address import ChoiceAddress
from model.runtime.sample import (
    MAX_SEED,
    MAX_TEMPERATURE,
    Candidate,
    Choice,
)

ROWS = 14


class Settings(base.Settings):
    """How the next token is chosen. `top_k` of 0 and `top_p` of 1 cut nothing."""

    temperature: float = Field(1.5, ge=0, le=MAX_TEMPERATURE)
    top_k: int = Field(10, ge=0, le=100_000)
    top_p: float = Field(0.95, ge=0, le=1)
    seed: int = Field(1, ge=0, le=MAX_SEED)


@dataclass(frozen=True)
class Row:
    """A token of the ranking. `why` says what cut it; `crosses` marks the one that brings the total to p."""

    shown: Markup
    before: Markup
    running: Markup
    after: Markup
    widths: tuple[float, float]
    why: str
    crosses: bool
    chosen: bool


@dataclass(frozen=True)
class View:
    """`removed_k` and `removed_p` are "" where that cut removed nothing."""

    rows: list[Row]
    kept: int
    total: int
    removed: Markup
    removed_k: Markup
    removed_p: Markup
    stays: Markup
    drawn: float
    low: Markup
    high: Markup
    token: Markup
    more: int
    text: str | None


def view(scene: Scene, s: Settings) -> View:
    choice = scene.run.next(temperature=s.temperature, top_k=s.top_k or None, top_p=s.top_p, seed=s.seed)
    at, shown = ChoiceAddress(choice), scene.num.shown
    listed = choice.candidates(0, min(ROWS, len(choice.order)))
    low, high = at.interval(choice.rank)
    return View(
        [row(scene, s, choice, one) for one in listed],
        choice.kept,
        len(choice.order),
        scene.num(f"calc(1-{inside(at.kept_mass)})", "percent"),
        scene.num(at.removed_by_k, "percent") if choice.kept_by_k < len(choice.order) else Markup(""),
        scene.num(f"calc({inside(at.removed_by_p)}*(1-{inside(at.removed_by_k)}))", "percent")
        if choice.kept < choice.kept_by_k
        else Markup(""),
        scene.num(at.kept_mass, "percent"),
        choice.drawn,
        shown(low, formatted(choice.interval[0], "4")),
        shown(high, formatted(choice.interval[1], "4")),
        scene.num.token(choice.token),
        len(choice.order) - len(listed),
        appended(scene, choice.token),
    )


def row(scene: Scene, s: Settings, choice: Choice, one: Candidate) -> Row:
    at, num = ChoiceAddress(choice), scene.num
    kept = one.rank < choice.kept
    counted = one.rank < choice.kept_by_k
    before = f"probs[{choice.t},{one.token}]" if s.temperature == 1 else at.tempered(one.token)
    return Row(
        num.token(one.token),
        num.shown(before, formatted(one.tempered, "percent")),
        num(at.running(one.rank), "percent", css="num") if counted else Markup(""),
        num.shown(at.odds(one.token), formatted(one.odds, "percent") if kept else "0"),
        (round(100 * one.tempered, 2), round(100 * one.odds, 2)),
        "" if kept else "top-p" if counted else "top-k",
        s.top_p < 1 and one.rank == choice.kept - 1 and choice.kept < choice.kept_by_k,
        one.token == choice.token,
    )


def inside(at: str) -> str:
    """The arithmetic of an expression's address, to be used in another one."""
    return f"({at.removeprefix('calc(').removesuffix(')')})"


def appended(scene: Scene, token: int) -> str | None:
    """The text with the token after it; None where that is no text."""
    text = scene.model.tokenizer.text(token)
    return None if text is None or token == scene.model.tokenizer.start_id else scene.state.text + text


PART = Part(
    "cut", "Top-k and top-p", Settings, view, home="transformer#append", rem=36,
    about="Cut the unlikely tail, see the mass that went and the odds that are left, and draw with a seed.",
)  # fmt: skip
