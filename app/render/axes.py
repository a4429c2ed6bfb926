"""Axes in words: what a row or a column is, and its name at the edge of a table."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from markupsafe import Markup, escape

from app.render import numbers
from app.render.tokens import token_html
from model.arch.base import AXES, Config, Node
from model.runtime.run import Run
from model.weights.tokenizer import Tokenizer

LONG = 9  # tokens of more characters than this may be cut off in a table, so they get a title


def meaning(config: Config, node: Node, axis: str) -> str:
    """What one place on an axis of a node is: “one of the 512 neurons”."""
    size = numbers.count(getattr(config, axis)) if hasattr(config, axis) else ""
    what = AXES[axis]
    return (what.predicted if node.predicts and what.predicted else what.meaning).format(size=size)


def place_token(run: Run, axis: str, i: int) -> int | None:
    """The token that stands at place `i` of an axis; None where the axis has no tokens."""
    if AXES[axis].tokens == "vocabulary":
        return i
    return run.tokens[i] if AXES[axis].tokens and i < run.n_pos else None


def place_name(run: Run, axis: str, i: int) -> str:
    """A place in plain text: “ Mary 2”, “31”."""
    token = place_token(run, axis, i)
    return str(i) if token is None else f"{run.model.tokenizer.show(token)} {i}"


def place_html(run: Run, axis: str, i: int, *, index_first: bool) -> Markup:
    """A place's token and index for the edge of a table."""
    token = place_token(run, axis, i)
    index = Markup('<span class="i">{}</span>').format(numbers.count(i) if token is None else i)
    if token is None:
        return index
    name = named_token(run.model.tokenizer, token)
    return index + name if index_first else name + Markup(" ") + index


# By tokenizer, and gone with it: a cache that held one would keep it after its model is unloaded.
_NAMED: WeakKeyDictionary[Tokenizer, dict[int, Markup]] = WeakKeyDictionary()


def named_token(tokenizer: Tokenizer, token: int) -> Markup:
    """The token, with all of it in a title where it may be cut off."""
    known = _NAMED.setdefault(tokenizer, {})
    if token not in known:
        known[token] = _named(tokenizer, token)
    return known[token]


def _named(tokenizer: Tokenizer, token: int) -> Markup:
    text = tokenizer.show(token)
    shown = token_html(tokenizer, token)
    if len(text) <= LONG:
        return shown
    return Markup(str(shown).replace("<span ", f'<span title="{escape(text)}" ', 1))
