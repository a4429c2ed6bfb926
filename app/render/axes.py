"""Axes in words: what a row or a column is, and its name at the edge of a table."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from markupsafe import Markup, escape

from app.render import numbers
from app.render.tokens import token_html
from model.arch.base import Config, Node
from model.runtime.run import Run
from model.weights.tokenizer import Tokenizer

LONG = 9  # tokens of more characters than this may be cut off in a table, so they get a title

OF_POSITIONS = ("pos", "query", "key", "n_ctx")
NEXT = ("logits", "probs", "log_probs")


def meaning(config: Config, node: Node, axis: str) -> str:
    """What one place on an axis of a node is: “one of the 512 neurons”."""
    size = numbers.count(getattr(config, axis)) if hasattr(config, axis) else ""
    return {
        "pos": "a token read",
        "query": "a token read, as the query that looks",
        "key": "a token read, as the key that is looked at",
        "head": "a head",
        "d_head": f"one of the {size} entries of a head’s vector",
        "d_model": f"one of the {size} entries of the residual stream",
        "d_mlp": f"one of the {size} neurons",
        "d_vocab": f"one of the {size} tokens that may come next"
        if node.name in NEXT
        else f"one of {size} known tokens",
        "n_ctx": f"one of the {size} positions there can be",
    }[axis]


def place_token(run: Run, axis: str, i: int) -> int | None:
    """The token that stands at place `i` of an axis; None where the axis has no tokens."""
    if axis == "d_vocab":
        return i
    return run.tokens[i] if axis in OF_POSITIONS and i < run.n_pos else None


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
