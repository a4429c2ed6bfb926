"""The values view: a window of one tensor's real numbers, what they are, what they stand beside, and how to move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from app.panels import steps
from app.panels.save import Downloads, of_table
from app.panels.values.grid import Table, grid, listing
from app.panels.values.overview import Overview, overview
from app.panels.values.stages import StageLink, stages
from app.panels.values.summary import is_too_large
from app.panels.values.window import (
    MOST,
    Span,
    Window,
    window,
)
from app.render import numbers
from app.render.axes import (
    meaning,
    named_token,
    place_token,
)
from app.render.links import Links
from app.render.places import chosen
from app.render.tokens import token_html
from app.request.paths import share_url
from app.request.state import State
from model.address.parser import Address
from model.arch.base import Node
from model.runtime.run import Run

N_TOP = 12


@dataclass(frozen=True)
class Pager:
    """Moving along one axis: words for what is in view, and URLs of the pages before and after, if any.

    `field` is the URL parameter that holds the first place in view.
    """

    field: str
    axis: str
    words: str
    before: str
    after: str
    before_side: str
    after_side: str
    first: int
    last: int


@dataclass(frozen=True)
class Top:
    """One of the likeliest next tokens: a link to its number in this tensor."""

    token: Markup
    link: Markup


@dataclass(frozen=True)
class ValuesView:
    """All that `values/_values.html` shows."""

    title: str
    code: Markup
    says: Markup
    stages_name: str
    stages: tuple[StageLink, ...]
    overview: Overview | None
    table: Table | None
    alone: Markup  # the number of a scalar site
    kind: str
    is_scored: bool  # the rows say which token they had to predict
    pagers: tuple[Pager, ...]
    back: str  # URL of the window that holds the chosen number, where it is out of view
    hidden: tuple[tuple[str, str], ...]  # what a form that moves the window keeps
    note: str
    top: tuple[Top, ...]
    top_words: Markup
    address: str
    action: str  # where its forms lead, and what they carry there
    run_query: tuple[tuple[str, str], ...]
    share: str  # how to share the table; "" in an embed, which is shared already
    downloads: tuple[Downloads, ...]


def values_view(run: Run, state: State) -> ValuesView:
    """The view of the tensor that `state.at` lies in. Raises AddressError."""
    address = chosen(run, state.at)
    node = run.model.graph[address.site]
    shown, cells = window(run, state, address), Links(state)
    value = float(run.values(address)) if address.is_single else None
    name, steps = stages(run, address, cells)
    return ValuesView(
        title=_title(node, address),
        code=_code(shown),
        says=_says(run, node, shown),
        stages_name=name,
        stages=steps,
        overview=overview(run, shown, cells, value),
        table=_table(run, shown, cells),
        alone=cells.number(str(address), numbers.value(value), current=True) if value is not None else Markup(""),
        kind=shown.kind,
        is_scored=node.name == "loss_per_token",
        pagers=_pagers(state, shown),
        back=state.replace(row=None, col=None).url() if shown.chosen and not shown.is_in_view else "",
        hidden=_kept(state),
        note=_note(shown, has_overview=not is_too_large(run, address)),
        top=_top(run, node, shown, cells),
        top_words=_top_words(run, node, shown),
        address=str(address),
        action=state.action,
        run_query=tuple(state.page_query),
        share="" if state.is_framed or state.is_packed else f"{share_url(state.url())}&as=values",
        downloads=of_table(run, state, address, shown.shown),
    )


def _table(run: Run, shown: Window, cells: Links) -> Table | None:
    if shown.kind == "single":
        return None
    return listing(run, shown, cells) if shown.kind == "list" else grid(run, shown, cells)


# -- words


def _title(node: Node, address: Address) -> str:
    after = f"after {steps.in_words(address.step)}" if address.step is not None else ""
    kind = {"grad": "gradient", "m": "AdamW’s average slope", "v": "AdamW’s average squared slope"}.get(address.kind)
    return ": ".join(filter(None, (node.title, ", ".join(filter(None, (kind, after))))))


def _code(shown: Window) -> Markup:
    """The address with its axes by name, and what is fixed marked: blocks.2.attn.qk[**1**, query, key]."""
    if not shown.axes:
        return Markup("{}").format(str(shown.address))
    fixed = dict(shown.fixed)
    parts = [Markup("<b>{}</b>").format(fixed[a]) if a in fixed else axis for a, axis in enumerate(shown.axes)]
    quantity = f".{shown.address.quantity}" if shown.address.quantity else ""
    return Markup("{}<wbr>[{}]{}").format(shown.address.site, Markup(", ").join(parts), quantity)


def _says(run: Run, node: Node, shown: Window) -> Markup:
    """Where the tensor stands, and what its rows and columns are."""
    where = [Markup("Block {}").format(node.block)] if node.block is not None else []
    for a, i in shown.fixed:
        where.append(_fixed_words(run, shown.axes[a], i))
    place = Markup(", ").join(where)
    place = Markup("{}. ").format(place[:1].upper() + place[1:]) if place else Markup("")
    return place + Markup("{}{}").format(_layout_words(run, node, shown), _quantity_words(shown.address))


def _quantity_words(address: Address) -> str:
    after = f"after {steps.in_words(address.step)} of learning" if address.step is not None else ""
    if address.kind == "grad":
        return f" Each number is ∂loss/∂it{', ' if after else ''}{after}: how fast the loss grows with it."
    if address.kind in ("m", "v"):
        what = "slopes" if address.kind == "m" else "squared slopes"
        return f" Each number is AdamW’s running average of the {what} {after}."
    return f" Each number as it is {after}." if after else ""


def _fixed_words(run: Run, axis: str, i: int) -> Markup:
    token = place_token(run, axis, i)
    words = Markup("{} <b>{}</b>").format(axis, i)
    return words if token is None else words + Markup(" ({})").format(token_html(run.model.tokenizer, token))


def _layout_words(run: Run, node: Node, shown: Window) -> str:
    config = run.model.config
    if shown.kind == "single":
        return _single_words(run)
    if shown.kind == "wrap":
        lines = "; a number’s index is its line’s plus its column’s" if shown.n > MOST else ""
        return f"Each number belongs to {meaning(config, node, shown.axes[0])}, {MOST} to a line{lines}."
    if node.name == "tokens":
        return "Each row is a token read, and its number in the vocabulary."
    if node.name == "loss_per_token":
        return "Row t: after token t has been read, how surprising the next one is. Position t predicts token t+1."
    if shown.kind == "list":
        return "Each row is a token read."
    rows, cols = meaning(config, node, shown.rows.axis), meaning(config, node, shown.cols.axis)
    if {shown.rows.axis, shown.cols.axis} == {"query", "key"}:
        return "Rows and columns are tokens read: the row’s query looks, the column’s key is looked at."
    more = " Position t predicts token t+1." if node.predicts else ""
    return f"Each row is {rows}; each column is {cols}.{more}"


def _single_words(run: Run) -> str:
    if run.is_sequence:
        return "One number: the mean of loss_per_token over all positions that have a next token in the text."
    return f"One number: −log p of the target after position {run.n_pos - 1}, the last entry of loss_per_token."


def _note(shown: Window, has_overview: bool) -> str:
    if shown.is_masked:
        return "Hatched: a key after its query. It is masked and plays no part."
    return "" if has_overview else "Depth of colour compares the numbers in view: the whole tensor is large."


# -- moving


def _pagers(state: State, shown: Window) -> tuple[Pager, ...]:
    spans = [("row", shown.rows, "up", "down"), ("col", shown.cols, "left", "right")]
    return tuple(
        _pager(state, shown, field, span, before, after) for field, span, before, after in spans if not span.is_whole
    )


def _pager(state: State, shown: Window, field: str, span: Span, before: str, after: str) -> Pager:
    def to(start: int | None) -> str:
        if start is None:
            return ""
        row, col = (start, shown.cols.start) if field == "row" else (shown.rows.start, start)
        return state.window(row, col).url()

    scale, n = (MOST, shown.n) if shown.kind == "wrap" else (1, span.n)
    first, last = span.start * scale, min(span.stop * scale, n) - 1
    words = f"{span.axis} {numbers.count(first)}–{numbers.count(last)} of {numbers.count(n)}"
    axis = "line" if shown.kind == "wrap" else span.axis
    return Pager(field, axis, words, to(span.before), to(span.after), before, after, span.start, span.n - 1)


def _kept(state: State) -> tuple[tuple[str, str], ...]:
    """Fields that a form keeps which moves the window."""
    view = [(name, value) for name, value in state.view_query if name not in ("row", "col")]
    return (*state.page_query, ("at", state.at), *view)


# -- the likeliest next tokens


def _position(run: Run, shown: Window) -> int:
    return shown.rows.on.start if len(shown.rows.on) == 1 else run.n_pos - 1


def _top(run: Run, node: Node, shown: Window, cells: Links) -> tuple[Top, ...]:
    """The largest entries after one position: a way into a row of many thousands."""
    if not node.predicts or shown.address.quantity:
        return ()
    t = _position(run, shown)
    row = run.tensor(node.name)[t].numpy()
    n = min(N_TOP, len(row))
    order = np.argsort(-row, kind="stable")[:n] if n == len(row) else _largest(row, n)
    show = numbers.percent if node.name == "probs" else numbers.value

    def link(v: int) -> Markup:
        return cells.number(str(Address(node.name, (t, v))), show(float(row[v])), current=shown.chosen == (t, v))

    return tuple(Top(named_token(run.model.tokenizer, v), link(v)) for v in order.tolist())


def _largest(row: np.ndarray, n: int) -> np.ndarray:
    """Indices of the `n` largest, the largest first, the lower index first on a tie."""
    picked = np.sort(np.argpartition(-row, n)[:n])
    found: np.ndarray = picked[np.argsort(-row[picked], kind="stable")]
    return found


def _top_words(run: Run, node: Node, shown: Window) -> Markup:
    if not node.predicts or shown.address.quantity:
        return Markup("")
    t = _position(run, shown)
    return Markup("The largest after position {} ({}):").format(t, token_html(run.model.tokenizer, run.tokens[t]))
