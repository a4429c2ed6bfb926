"""One guess: a text, its tokens, and the likeliest next tokens, each a link that appends it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from app.render import numbers
from app.render.tokens import token_html


class Settings(base.Settings):
    """How many guesses are listed."""

    n: int = Field(8, ge=3, le=30)


@dataclass(frozen=True)
class Token:
    """A token of the text."""

    link: Markup
    id: int
    bytes: str


@dataclass(frozen=True)
class Guess:
    """A possible next token. `text` is the text with it appended, None where it is no whole text of its own."""

    shown: Markup
    name: str
    width: float
    number: Markup
    text: str | None


@dataclass(frozen=True)
class View:
    """`rest` is the probability of all that are not listed."""

    tokens: list[Token]
    guesses: list[Guess]
    n_rest: int
    rest: Markup
    total: int


def view(scene: Scene, s: Settings) -> View:
    run, num, tokenizer, last = scene.run, scene.num, scene.model.tokenizer, scene.last
    tokens = [
        Token(
            num.link(f"tokens[{t}]", Markup('<span class="i">{}</span>{}').format(t, num.token(token)), css="token"),
            token,
            tokenizer.bytes(token).hex(" ").upper(),
        )
        for t, token in enumerate(run.tokens)
    ]
    top = run.top(min(s.n, scene.model.config.d_vocab))
    guesses = [
        Guess(
            shown=token_html(tokenizer, token),
            name=tokenizer.show(token),
            width=round(100 * p, 2),
            number=num(f"probs[{last},{token}]", "percent", css="num"),
            text=None if tokenizer.readable(token) is None else scene.state.text + tokenizer.bytes(token).decode(),
        )
        for token, p in top
    ]
    listed = "".join(f"-probs[{last},{token}]" for token, _ in top)
    rest = max(0.0, 1 - sum(p for _, p in top))
    total = scene.model.config.d_vocab
    return View(tokens, guesses, total - len(top), num.shown(f"calc(1{listed})", numbers.percent(rest)), total)


PART = Part(
    "guess", "One guess", Settings, view, home="transformer#guess", rem=36,
    about="Type a text, see its tokens and the likeliest next ones; click one to append it and guess again.",
)  # fmt: skip
