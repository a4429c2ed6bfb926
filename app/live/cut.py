"""Top-k and top-p: which tokens stay, what was cut, the rest rescaled, and one of them drawn."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pydantic import Field

from app.live import base
from app.live.base import Part, Scene, formatted
from app.live.temperature import tempered
from model.sample import MAX_SEED, MAX_TEMPERATURE

ROWS = 14
WRITTEN_OUT = 30  # kept tokens up to which a rescaled probability is written out as an expression


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
    running: float
    after: Markup
    widths: tuple[float, float]
    why: str
    crosses: bool
    chosen: bool


@dataclass(frozen=True)
class View:
    rows: list[Row]
    kept: int
    total: int
    removed: float
    removed_k: float
    removed_p: float
    drawn: float
    low: float
    high: float
    token: Markup
    rank: int
    more: int
    text: str | None


def view(scene: Scene, s: Settings) -> View:
    run, t = scene.run, scene.last
    choice = run.next(temperature=s.temperature, top_k=s.top_k or None, top_p=s.top_p, seed=s.seed)
    tokens = choice.order[: min(ROWS, len(choice.order))].tolist()
    names = [
        tempered(t, v, s.temperature).removeprefix("calc(").removesuffix(")") if s.temperature else "" for v in tokens
    ]
    kept_names = names[: choice.kept] if choice.kept <= len(names) else []
    rows, running = [], 0.0
    for rank, v in enumerate(tokens):
        running += float(choice.after_k[v])
        before, after = float(choice.tempered[v]), float(choice.odds[v])
        kept = rank < choice.kept
        rows.append(
            Row(
                scene.num.token(v),
                shown(scene, f"probs[{t},{v}]" if s.temperature == 1 else f"calc({names[rank]})" if names[rank] else "",
                      formatted(before, "percent")),
                running,
                shown(scene, rescaled(t, tokens[: choice.kept], v, s.temperature) if kept and kept_names else "",
                      formatted(after, "percent") if kept else "0"),
                (round(100 * before, 2), round(100 * after, 2)),
                "" if kept else "top-k" if rank >= choice.kept_by_k else "top-p",
                s.top_p < 1 and rank == choice.kept - 1 and choice.kept < choice.kept_by_k,
                v == choice.token,
            )
        )  # fmt: skip
    low, high = choice.interval
    return View(
        rows, choice.kept, len(choice.order), 1 - choice.kept_mass, choice.removed_by_k,
        choice.removed_by_p * (1 - choice.removed_by_k), choice.drawn, low, high, scene.num.token(choice.token),
        choice.rank, len(choice.order) - len(tokens), appended(scene, choice.token),
    )  # fmt: skip


def shown(scene: Scene, address: str, text: str) -> Markup:
    return scene.num.shown(address, text) if address and len(address) < 2500 else Markup(text)


def rescaled(t: int, kept: list[int], v: int, temperature: float) -> str:
    """The probability among the kept tokens alone: e^(z/T) over the sum of theirs. "" where that would be too long."""
    if len(kept) > WRITTEN_OUT or not temperature:
        return ""
    top = f"max(logits[{t},:])"
    raised = {u: f"exp((logits[{t},{u}]-{top})/{temperature:g})" for u in kept}
    return f"calc({raised[v]}/({'+'.join(raised.values())}))"


def appended(scene: Scene, token: int) -> str | None:
    """The text with the token after it; None where that is no text."""
    text = scene.model.tokenizer.text(token)
    return None if text is None or token == scene.model.tokenizer.start_id else scene.state.text + text


PART = Part(
    "cut", "Top-k and top-p", Settings, view, home="transformer#append", rem=36,
    about="Cut the unlikely tail, see the mass that went and the odds that are left, and draw with a seed.",
)  # fmt: skip
