"""The state of a page is its URL: this is the one place that reads it and the one place that writes it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from html import escape
from typing import Literal
from urllib.parse import quote, urlencode

from markupsafe import Markup

from app.server.prefix import rooted

DEFAULT_TEXT = "When Mary and John went to the store, John gave a drink to"
MAX_TRAIL = 8
DEFAULT_STEPS = 10

# Past this many characters of text a link in every cell would swamp the page: cells become buttons of one form.
LONG_QUERY = 400

SAFE = "[],:()*/~"

EXPLORE, SHARE = "/explore", "/share"
PACKABLE = (EXPLORE, "/whatif", "/learn")  # pages that may have their text in the path: see app.request.long_text

Pairs = tuple[tuple[str, str], ...]  # parameters of a URL

# The text that the path of the page asked for holds already: see long_text. Links that stay there leave it out.
NEAR: ContextVar[str | None] = ContextVar("near", default=None)


@dataclass(frozen=True)
class State:
    """What a page shows: model, text, target and start token; the selected address and how it is looked at.

    `model` "" is the server's default. `at` "" is the page's own choice. `row` and `col` are the first row and column
    of the window of values (None: the window around `at`). `order` and `offset` page through the terms. `trail` are
    the addresses followed to get here, oldest first.

    `eta` and `optimizer` say how learning steps are taken (None: an η measured on the run), `steps` how many a page
    of learning shows. `changes` are numbers set by the reader, each `site[index]=value`: with them it is another run.

    `nudge` asks beside a slope for finite differences: how far to move the number, besides the usual distances.

    `page` is where its numbers open. `own` are that page's own parameters, such as a live part's settings, and `look`
    how an embed looks; links that stay on the page carry both.
    """

    model: str = ""
    text: str = DEFAULT_TEXT
    target: str = ""
    bos: bool = True
    at: str = ""
    row: int | None = None
    col: int | None = None
    order: Literal["size", "index"] = "size"
    offset: int = 0
    trail: tuple[str, ...] = ()
    eta: float | None = None
    optimizer: Literal["sgd", "adamw"] = "sgd"
    steps: int = DEFAULT_STEPS
    changes: tuple[str, ...] = ()
    nudge: float | None = None
    page: str = EXPLORE
    own: Pairs = ()
    look: Pairs = ()

    # -- where a click leads

    def select(self, at: str) -> State:
        """Another number, freshly chosen: a new trail begins."""
        return replace(self, at=at, trail=(), offset=0, row=None, col=None, nudge=None)

    def follow(self, at: str) -> State:
        """Onward from the selected number: it joins the trail. Going back to one on the trail shortens it."""
        if at in self.trail:
            return self.back(self.trail.index(at))
        trail = (*self.trail, self.at)[-MAX_TRAIL:] if self.at else self.trail
        return replace(self, at=at, trail=trail, offset=0, row=None, col=None, nudge=None)

    def back(self, n: int) -> State:
        """To the n-th address of the trail."""
        return replace(self, at=self.trail[n], trail=self.trail[:n], offset=0, row=None, col=None, nudge=None)

    def turn(self, at: str) -> State:
        """Another quantity at the same place: the trail stays."""
        return replace(self, at=at, offset=0, nudge=None)

    def window(self, row: int, col: int) -> State:
        """The same selection, other values in view."""
        return replace(self, row=max(row, 0), col=max(col, 0))

    def terms(self, *, order: Literal["size", "index"] | None = None, offset: int = 0) -> State:
        """The same selection, other terms in view."""
        return replace(self, order=order or self.order, offset=max(offset, 0))

    def aim(self, target: str) -> State:
        """The same text with another target, looked at afresh."""
        return replace(self, target=target, at="", trail=(), offset=0, row=None, col=None, nudge=None)

    def change(self, *changes: str) -> State:
        """The run with just these numbers set (none: as it was). The place looked at stays."""
        return replace(self, changes=changes)

    def learn(self, *, eta: float | None, optimizer: Literal["sgd", "adamw"], steps: int) -> State:
        """The same run learning in another way."""
        return replace(self, eta=eta, optimizer=optimizer, steps=steps)

    # -- as a URL

    @property
    def run_query(self) -> list[tuple[str, str]]:
        """The parameters that name the run; those at their defaults are left out."""
        pairs = [("model", self.model), ("text", self.text), ("target", self.target)]
        kept = [(k, v) for k, v in pairs if v or (k == "text")]
        kept += [] if self.bos else [("bos", "0")]
        return kept + self.rate_query + self.set_query

    @property
    def set_query(self) -> list[tuple[str, str]]:
        """The numbers set."""
        return [("set", change) for change in self.changes]

    @property
    def rate_query(self) -> list[tuple[str, str]]:
        """How learning steps are taken, where not in the usual way."""
        pairs: list[tuple[str, str]] = []
        if self.eta is not None:
            pairs.append(("eta", written(self.eta)))
        if self.optimizer != "sgd":
            pairs.append(("optimizer", self.optimizer))
        if self.steps != DEFAULT_STEPS:
            pairs.append(("steps", str(self.steps)))
        return pairs

    @property
    def page_query(self) -> list[tuple[str, str]]:
        """The run, and what the page where its numbers open needs besides: what a form to `front` keeps."""
        run = [pair for pair in self.run_query if not (self.is_near and pair[0] == "text")]
        return [*run, *self.own, *self.look]

    @property
    def is_near(self) -> bool:
        """Whether the path of the page that is made holds this text, so that a link to the same page need not."""
        return self.page == EXPLORE and NEAR.get() == self.text

    @property
    def front(self) -> str:
        """What a link or form to the page where its numbers open begins with."""
        return self.page.rpartition("/")[2] if self.is_near else rooted(self.page)

    @property
    def is_framed(self) -> bool:
        """Whether numbers open in an embed: links that lead out of it then need a window of their own."""
        return self.page.startswith("/embed/")

    @property
    def view_query(self) -> list[tuple[str, str]]:
        """The parameters that say what is looked at."""
        view: list[tuple[str, str]] = []
        if self.row is not None:
            view.append(("row", str(self.row)))
        if self.col is not None:
            view.append(("col", str(self.col)))
        if self.order != "size":
            view.append(("order", self.order))
        if self.offset:
            view.append(("offset", str(self.offset)))
        if self.nudge is not None:
            view.append(("nudge", written(self.nudge)))
        if self.trail:
            view.append(("trail", "~".join(self.trail)))
        return view

    def query(self, *, without_text: bool = False) -> str:
        run = [pair for pair in self.run_query if not (without_text and pair[0] == "text")]
        pairs = [*run, *([("at", self.at)] if self.at else []), *self.view_query]
        return urlencode(pairs, safe=SAFE, quote_via=quote)

    def url(self, path: str = "") -> str:
        """A link to a page in this state (none named: where its numbers open), not yet escaped for HTML."""
        if path and path != self.page:
            if self.is_near and path in PACKABLE:
                return f"{path[1:]}?{self.query(without_text=True)}"
            return f"{rooted(path)}?{self.query()}"
        own = f"{urlencode(kept, safe=SAFE, quote_via=quote)}&" if (kept := [*self.own, *self.look]) else ""
        return f"{self.front}?{own}{self.query(without_text=self.is_near)}"

    def api(self, what: Literal["run", "values", "explain"], **extra: str) -> str:
        """The JSON twin, with the address where it takes one."""
        at = [("at", self.at)] if self.at and what != "run" else []
        if self.is_near:
            query = urlencode([*self.page_query, *at, *extra.items()], safe=SAFE, quote_via=quote)
            return f"api/v1/{what}?{query}"
        query = urlencode([*self.run_query, *at, *extra.items()], safe=SAFE, quote_via=quote)
        return f"{rooted(f'/api/v1/{what}')}?{query}"


def share_url(path: str) -> str:
    """The page that helps to share a rooted path of this site."""
    return f"{rooted(SHARE)}?{urlencode({'url': path}, safe=SAFE, quote_via=quote)}"


def written(x: float) -> str:
    """A number in a URL or a field: all digits that it needs, no more where six do."""
    return f"{x:g}" if float(f"{x:g}") == x else f"{x:.17g}"


class Cells:
    """Many numbers that each select an address: the shared front of their links is quoted and escaped once.

    Where the text is long, a cell is a button of the page's form `#go` (hidden fields carry the text once), which
    leads to the same URL; so a page of cells stays small.
    """

    def __init__(self, state: State) -> None:
        front = urlencode(state.page_query, safe=SAFE, quote_via=quote)
        self.as_buttons = len(front) > LONG_QUERY
        self._front = escape(f"{state.front}?{front}{'&' if front else ''}at=", quote=True)

    def number(self, at: str, shown: str, *, css: str = "num", current: bool = False, label: str = "") -> Markup:
        """One clickable number. `shown` is plain text; `label` an accessible name where `shown` does not say enough."""
        name = f' aria-label="{escape(label, quote=True)}"' if label else ""
        return self.link(at, Markup(escape(shown)), css=css, current=current, attributes=name)

    def link(self, at: str, inner: Markup, *, css: str = "", current: bool = False, attributes: str = "") -> Markup:
        """Anything that selects an address when clicked: a link, or a button where links would be too long.

        `attributes` are more HTML attributes, escaped already and with a space in front.
        """
        here = ' aria-current="true"' if current else ""
        if self.as_buttons:
            return Markup(
                f'<button type="submit" form="go" name="at" value="{escape(at, quote=True)}" '
                f'class="{css}"{here}{attributes}>{inner}</button>'
            )
        href = self._front + escape(quote(at, safe=SAFE), quote=True)
        return Markup(f'<a class="{css}" href="{href}"{here}{attributes}>{inner}</a>')
