"""One guess: a text, its tokens, and the likeliest next tokens, each a link that appends it."""

from __future__ import annotations

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.render import numbers


@live_part("One guess", home="transformer#guess", rem=36)
class Guess(Settings):
    """Type a text, see its tokens and the likeliest next ones; click one to append it and guess again."""

    n: int = Field(8, ge=3, le=30)

    def view(self, scene: Scene) -> View:
        """`rest` is the probability of all tokens that are not listed."""
        top = scene.run.top(min(self.n, scene.model.config.d_vocab))
        listed = "".join(f"-probs[{scene.last},{token}]" for token, _ in top)
        rest = numbers.percent(max(0.0, 1 - sum(p for _, p in top)))
        return View(
            guesses=[View(token=token, p=p, text=appended(scene, token)) for token, p in top],
            n_rest=scene.model.config.d_vocab - len(top),
            rest=scene.num.shown(f"calc(1{listed})", rest),
        )


def appended(scene: Scene, token: int) -> str | None:
    """The text with the token after it; None where that is no whole text of its own."""
    tokenizer = scene.model.tokenizer
    return None if tokenizer.readable(token) is None else scene.state.text + tokenizer.bytes(token).decode()
