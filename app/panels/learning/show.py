"""Numbers of learning as a page shows them: how each is written, and where it leads."""

from __future__ import annotations

from markupsafe import Markup

from app.render import numbers
from app.render.links import Links
from app.render.numbers import exact
from app.render.tokens import token_html
from app.request.state import State
from app.stores.learned import Learned
from model import Run


class LearnedNumbers:
    """The run, what it learned, and links to its numbers.

    `form` is the id of the page's form that buttons belong to, where links would be too long.
    """

    def __init__(self, run: Run, state: State, learned: Learned, form: str = "go") -> None:
        self.run, self.state, self.learned = run, state, learned
        self.last, self.k = run.n_pos - 1, learned.steps
        self.links, self.buttons = Links(state, form=form), Links(state, form=form)
        self.is_long = self.links.as_buttons
        self.buttons.as_buttons = True  # where there are many numbers, or their addresses are long
        self.target = None if run.is_sequence else run.target

    def number(self, at: str, text: str, *, live: bool = False) -> Markup:
        """A number of a table, or with `live` one that a sentence quotes."""
        links = self.links if live else self.buttons
        return links.number(at, text, css="num live" if live else "num")

    def loss(self, j: int, *, live: bool = False) -> Markup:
        """The loss after j steps."""
        return self.number(after("loss", j), exact(self.learned.losses[j]), live=live)

    def probability(self, token: int, p: float, j: int, *, live: bool = False) -> Markup:
        return self.number(after(self.probs(token), j), numbers.percent(p), live=live)

    def moved(self, token: int, change: float) -> Markup:
        """How far a token's probability went in all steps, in percentage points."""
        at = self.probs(token)
        return self.number(difference(after(at, self.k), at), numbers.points(change))

    def lost(self, token: int, size: float) -> Markup:
        """How much of its probability a token lost, as a sentence says it."""
        at = self.probs(token)
        return self.number(difference(at, after(at, self.k)), numbers.points(size).removeprefix("+"), live=True)

    def stepped(self, eta: float, text: str, css: str) -> Markup:
        """The loss after one step at another η: a link of its own, since the page's form carries the page's η."""
        url = self.state.replace(eta=eta, optimizer="sgd").select("loss.step(1)").url()
        return Markup('<a class="{}" href="{}">{}</a>').format(css, url, text)

    def probs(self, token: int) -> str:
        """The address of a token's probability after the last position."""
        return f"probs[{self.last},{token}]"

    def token(self, token: int) -> Markup:
        return token_html(self.run.model.tokenizer, token)


def after(at: str, j: int) -> str:
    """The address of a number after j steps."""
    return f"{at}.step({j})" if j else at


def difference(later: str, earlier: str) -> str:
    return f"calc({later}-{earlier})"
