"""The values view: a window of one tensor's real numbers, what they are, what they stand beside, and how to move."""

from __future__ import annotations

from markupsafe import Markup

from app.panels import steps
from app.panels.save import of_table
from app.panels.values.grid import grid, listing
from app.panels.values.overview import overview
from app.panels.values.stages import stages
from app.panels.values.summary import is_too_large, largest_first
from app.panels.values.window import MOST, Span, Window, window
from app.render import numbers
from app.render.axes import meaning, named_token, place_token
from app.render.links import Links
from app.render.places import chosen
from app.render.templating import Context
from app.render.tokens import token_html
from app.request.paths import share_url
from app.request.state import State
from model.address.parser import Address
from model.arch.base import Node
from model.runtime.run import Run

N_TOP = 12


def values_view(run: Run, state: State) -> Context:
    """The view of the tensor that `state.at` lies in. Raises AddressError.

    `alone` is the number of a scalar site, `back` the URL of the window that holds the chosen number where it is out of
    view, `share` how to share the table: "" in an embed, which is shared already.
    """
    address = chosen(run, state.at)
    node = run.model.graph[address.site]
    shown, links = window(run, state, address), Links(state)
    value = float(run.values(address)) if address.is_single else None
    stages_name, beside = stages(run, address, links)
    return {
        "title": _title(node, address),
        "code": _code(shown),
        "fixed": _fixed(run, shown),
        "meanings": [meaning(run.model.config, node, span.axis) for span in (shown.rows, shown.cols) if span.axis],
        "is_sequence": run.is_sequence,
        "last": run.n_pos - 1,
        "stages_name": stages_name,
        "stages": beside,
        "overview": overview(run, shown, links, value),
        "table": _table(run, shown, links),
        "alone": links.number(str(address), numbers.value(value), current=True) if value is not None else "",
        "shown": shown,
        "node": node,
        "is_scored": node.name == "loss_per_token",
        "pagers": _pagers(state, shown),
        "back": state.replace(row=None, col=None).url() if shown.chosen and not shown.is_in_view else "",
        "note": _note(shown, has_overview=not is_too_large(run, address)),
        "top": _top(run, node, shown, links) if node.predicts and not address.quantity else None,
        "address": address,
        "state": state,
        "share": "" if state.is_framed or state.is_packed else f"{share_url(state.url())}&as=values",
        "downloads": of_table(run, state, address, shown.shown),
    }


def _table(run: Run, shown: Window, links: Links) -> Context | None:
    if shown.kind == "single":
        return None
    return listing(run, shown, links) if shown.kind == "list" else grid(run, shown, links)


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


def _fixed(run: Run, shown: Window) -> list[tuple[str, int, Markup | str]]:
    """The axes that are fixed, where, and the tokens that stand there."""
    fixed = [(shown.axes[a], i) for a, i in shown.fixed]
    tokens = [place_token(run, axis, i) for axis, i in fixed]
    shown_tokens = ["" if token is None else token_html(run.model.tokenizer, token) for token in tokens]
    return [(axis, i, token) for (axis, i), token in zip(fixed, shown_tokens, strict=True)]


def _note(shown: Window, has_overview: bool) -> str:
    if shown.is_masked:
        return "Hatched: a key after its query. It is masked and plays no part."
    return "" if has_overview else "Depth of colour compares the numbers in view: the whole tensor is large."


# -- moving


def _pagers(state: State, shown: Window) -> list[Context]:
    """For each axis that is not whole in view: what is, and how to move along it."""
    rows, cols = shown.rows, shown.cols
    pagers = []
    if not rows.is_whole:
        to = [None if start is None else state.window(start, cols.start).url() for start in (rows.before, rows.after)]
        pagers.append(_pager(shown, "row", rows, [("up", "↑", to[0]), ("down", "↓", to[1])]))
    if not cols.is_whole:
        to = [None if start is None else state.window(rows.start, start).url() for start in (cols.before, cols.after)]
        pagers.append(_pager(shown, "col", cols, [("left", "←", to[0]), ("right", "→", to[1])]))
    return pagers


def _pager(shown: Window, field: str, span: Span, ways: list[tuple[str, str, str | None]]) -> Context:
    """`field` is the parameter that holds the first place in view; `ways` are sides, arrows, URLs (if any)."""
    is_wrapped = shown.kind == "wrap"
    scale, n = (MOST, shown.n) if is_wrapped else (1, span.n)
    first, last = span.start * scale, min(span.stop * scale, n) - 1
    return {
        "field": field,
        "axis": "line" if is_wrapped else span.axis,
        "words": f"{span.axis} {numbers.count(first)}–{numbers.count(last)} of {numbers.count(n)}",
        "ways": ways,
        "span": span,
    }


# -- the likeliest next tokens


def _top(run: Run, node: Node, shown: Window, links: Links) -> Context:
    """The largest entries after one position: a way into a row of many thousands."""
    t = shown.rows.on.start if len(shown.rows.on) == 1 else run.n_pos - 1
    row, tokenizer = run.tensor(node.name)[t].numpy(), run.model.tokenizer
    show = numbers.percent if node.name == "probs" else numbers.value

    def link(v: int) -> Markup:
        return links.number(str(Address(node.name, (t, v))), show(float(row[v])), current=shown.chosen == (t, v))

    largest = [(named_token(tokenizer, v), link(v)) for v in largest_first(row, N_TOP)]
    return {"position": t, "token": token_html(tokenizer, run.tokens[t]), "largest": largest}
