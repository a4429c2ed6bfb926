"""Numbers on the page of learning: how they are written, and where they lead."""

from __future__ import annotations

from markupsafe import Markup

from app.panels.why.numbers import exact
from app.render import numbers
from app.render.links import Links
from app.render.tokens import token_html
from app.request.state import State
from app.stores.learned import Learned
from model import Run


class Show:
    """What the parts of the page share: the run, the result, and links to its numbers."""

    def __init__(self, run: Run, state: State, learned: Learned) -> None:
        self.run, self.state, self.learned = run, state, learned
        self.cells, self.last, self.k = Links(state), run.n_pos - 1, learned.steps
        self.is_long = self.cells.as_buttons
        self.short = Links(state)  # where there are many numbers, or their addresses are long
        self.short.as_buttons = True

    def loss(self, j: int, *, live: bool = False) -> Markup:
        cells = self.cells if live else self.short
        return cells.number(after("loss", j), exact(self.learned.losses[j]), css="num live" if live else "num")

    def probability(self, token: int, p: float, j: int, *, live: bool = False) -> Markup:
        at = after(f"probs[{self.last},{token}]", j)
        cells = self.cells if live else self.short
        return cells.number(at, numbers.percent(p), css="num live" if live else "num")

    def token(self, token: int) -> Markup:
        return token_html(self.run.model.tokenizer, token)


def after(at: str, j: int) -> str:
    """The address of a number after j steps."""
    return f"{at}.step({j})" if j else at


def difference(later: str, earlier: str) -> str:
    return f"calc({later}-{earlier})"


def stepped(state: State, eta: float, text: str, css: str) -> Markup:
    """The loss after one step at another η: a link of its own, since the page's form carries the page's η."""
    url = state.replace(eta=eta, optimizer="sgd").select("loss.step(1)").url()
    return Markup('<a class="{}" href="{}">{}</a>').format(css, url, text)


def signed(x: float, digits: int = 4) -> str:
    """With a plus where it is one."""
    text = numbers.value(x, digits)
    return f"+{text}" if x > 0 else text


def points(x: float) -> str:
    """A change of probability in percentage points."""
    text = numbers.fixed(100 * x, 2)
    return f"+{text}" if x > 0 and text.strip("0.") else text
