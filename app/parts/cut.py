"""Top-k and top-p: which tokens stay, what was cut, the rest rescaled, and one of them drawn."""

from __future__ import annotations

from markupsafe import Markup
from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.render import numbers
from model.runtime.choice_address import ChoiceAddress
from model.runtime.sample import MAX_SEED, MAX_TEMPERATURE, Candidate, Choice

ROWS = 14


@live_part("Top-k and top-p", home="transformer#append", rem=36)
class Cut(Settings):
    """Cut the unlikely tail, see the mass that went and the odds that are left, and draw with a seed."""

    temperature: float = Field(1.5, ge=0, le=MAX_TEMPERATURE)
    top_k: int = Field(10, ge=0, le=100_000)  # 0 cuts nothing
    top_p: float = Field(0.95, ge=0, le=1)  # and so does 1
    seed: int = Field(1, ge=0, le=MAX_SEED)

    def view(self, scene: Scene) -> View:
        choice = scene.run.next(
            temperature=self.temperature, top_k=self.top_k or None, top_p=self.top_p, seed=self.seed
        )
        at, num = ChoiceAddress(choice), scene.num
        ends = zip(at.interval(choice.rank), choice.interval, strict=True)
        low, high = (num.shown(end, numbers.formatted(x, "4")) for end, x in ends)
        return View(
            rows=[self.row(scene, choice, one) for one in choice.candidates(0, min(ROWS, len(choice.order)))],
            choice=choice,
            removed=num(f"calc(1-{inside(at.kept_mass)})", "percent"),
            removed_by_k=num(at.removed_by_k, "percent") if choice.kept_by_k < len(choice.order) else "",
            removed_by_p=num(f"calc({inside(at.removed_by_p)}*(1-{inside(at.removed_by_k)}))", "percent")
            if choice.kept < choice.kept_by_k
            else "",
            stays=num(at.kept_mass, "percent"),
            low=low,
            high=high,
            text=appended(scene, choice.token),
        )

    def row(self, scene: Scene, choice: Choice, one: Candidate) -> View:
        """A token of the ranking: `why` it was cut; `crosses` marks the one that brings the total to p."""
        at, num = ChoiceAddress(choice), scene.num
        kept, counted = one.rank < choice.kept, one.rank < choice.kept_by_k
        before = f"probs[{choice.t},{one.token}]" if self.temperature == 1 else at.tempered(one.token)
        return View(
            token=one.token,
            before=num.shown(before, numbers.formatted(one.tempered, "percent")),
            running=num(at.running(one.rank), "percent", css="num") if counted else Markup(""),
            after=num.shown(at.odds(one.token), numbers.formatted(one.odds, "percent") if kept else "0"),
            shares=(one.tempered, one.odds),
            why="" if kept else "top-p" if counted else "top-k",
            crosses=self.top_p < 1 and one.rank == choice.kept - 1 and choice.kept < choice.kept_by_k,
            chosen=one.token == choice.token,
        )


def inside(at: str) -> str:
    """The arithmetic of an expression's address, to be used in another one."""
    return f"({at.removeprefix('calc(').removesuffix(')')})"


def appended(scene: Scene, token: int) -> str | None:
    """The text with the token after it; None where that is no text."""
    text = scene.model.tokenizer.text(token)
    return None if text is None or token == scene.model.tokenizer.start_id else scene.state.text + text
