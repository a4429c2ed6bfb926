"""Numbers of a run as links, for live parts and lessons."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from app.render.links import Links
from app.render.numbers import formatted
from app.render.tokens import token_html
from app.request.paths import EXPLORE
from app.request.state import State
from model import Run


class Numbers(Links):
    """Numbers of one run as links: `num("logits[3,17]", "2")`. On a page they open in its why panel.

    `form` is the id of the form that carries the run where the text is too long for a link in every number; "" where
    no form does, as for a run that the page is not about: then they are links all the same.
    """

    shown = Links.number  # with a text already made, of a number that the caller has at hand

    def __init__(self, run: Run, state: State, *, form: str = "go") -> None:
        super().__init__(state, form=form)
        self.run = run

    def value(self, at: str) -> float:
        """The number at an address."""
        return float(self.run.values(at))

    def __call__(self, at: str, form: str = "3", *, label: str = "", css: str = "num live") -> Markup:
        """The number at an address, read from the run, as a link."""
        return self.shown(at, formatted(self.value(at), form), label=label, css=css)

    def calc(self, expression: str, form: str = "3", **more: Any) -> Markup:
        """The value of an expression over addresses, as a link to its arithmetic."""
        return self(f"calc({expression})", form, **more)

    def in_explorer(self, at: str) -> str:
        """The URL of an address in the explorer, not escaped."""
        return self.state.select(at).url(EXPLORE)

    def token(self, token: int) -> Markup:
        """A vocabulary entry as it is shown in a text."""
        return token_html(self.run.model.tokenizer, token)

    def at(self, position: int, *, numbered: bool = False) -> Markup:
        """The token at a position of the text, its position in front where it is `numbered`."""
        token = self.token(self.run.tokens[position])
        return Markup('<span class="i">{}</span>{}').format(position, token) if numbered else token
