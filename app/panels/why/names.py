"""What addresses, axes and places are called in the why panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from app.panels import steps
from app.render.numbers import count
from app.render.tokens import token_html
from model.address.parser import (
    Address,
    Binary,
    Calc,
    Call,
    Node,
    Partial,
    parse,
)

if TYPE_CHECKING:
    from model import Run

# Sites in a word, where the last piece of their name is not one already.
WORDS = {
    "tokens": "token",
    "embed": "embedding",
    "pos_embed": "position",
    "resid_pre": "stream",
    "resid_mid": "stream",
    "resid_post": "stream",
    "var": "variance",
    "normalized": "normalised",
    "q": "query",
    "k": "key",
    "v": "value",
    "qk": "q·k",
    "scores": "score",
    "pattern": "weight",
    "z": "mix",
    "result": "head’s share",
    "attn_out": "attention",
    "pre": "neuron in",
    "post": "neuron",
    "mlp_out": "feed-forward",
    "logits": "logit",
    "probs": "prob",
    "log_probs": "log prob",
    "loss_per_token": "token loss",
}
AXES = {
    "pos": "position",
    "query": "query",
    "key": "key",
    "head": "head",
    "d_head": "entry",
    "d_model": "entry",
    "d_mlp": "neuron",
    "d_vocab": "token",
    "n_ctx": "position",
}
WHOSE = {"d_head": "head entry", "d_model": "stream entry"}  # where entries of both stand side by side
# Who hands a slope back, in words, by the last piece of its name.
READERS = {
    "mean": "the mean of its LayerNorm",
    "var": "the variance of its LayerNorm",
    "scale": "the scale of its LayerNorm",
    "normalized": "its LayerNorm’s normalised number",
    "out": "its LayerNorm’s output",
    "q": "the queries",
    "k": "the keys",
    "v": "the values",
    "qk": "the query · key products",
    "scores": "the score",
    "exp": "the exponential of the score",
    "pattern": "the attention weights",
    "z": "the heads’ mixes of values",
    "attn_out": "attention’s output",
    "resid_pre": "the next block’s stream",
    "resid_mid": "the stream, straight on",
    "resid_post": "the stream, straight on",
    "pre": "the neurons",
    "post": "the neuron’s output",
    "mlp_out": "the feed-forward output",
    "embed": "the embedding of tokens in the text",
    "pos_embed": "the position’s vector",
    "logits": "the logits",
    "probs": "the probabilities",
    "log_probs": "the log-probabilities",
    "loss_per_token": "the loss at this position",
    "loss": "the loss itself",
}
OF_TEXT = ("pos", "query", "key")  # axes whose places are the text's tokens


def word(run: Run, at: str) -> str:
    """An address in a word: `blocks.2.attn.pattern[1,14,2]` is a weight."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        return _arithmetic(run, parsed.tree)
    node = run.model.graph[parsed.site]
    if not parsed.is_single or (node.axes and not parsed.index):
        return short(run, at, at)
    name = f"{node.part}.{node.short}" if node.short in ("out", "w", "b") else WORDS.get(node.short, node.short)
    return quantity(name, parsed)


def quantity(name: str, address: Address) -> str:
    """A name with which of its quantities is meant: slope of weight, weight after 3 steps."""
    after = f" after {steps.in_words(address.step)}" if address.step is not None else ""
    before = {"grad": "slope of ", "m": "average slope of ", "v": "average slope² of "}.get(address.kind, "")
    return before + name + after


def _arithmetic(run: Run, tree: Node) -> str:
    if (
        isinstance(tree, Binary)
        and tree.op == "-"
        and isinstance(tree.left, Address)
        and isinstance(tree.right, Address)
    ):
        return f"{word(run, str(tree.left))} − {word(run, str(tree.right))}"
    if isinstance(tree, Call):
        return f"{tree.name}(…)"
    if isinstance(tree, Binary) and tree.op == "/" and str(tree.left) == "1" and isinstance(tree.right, Address):
        return f"1 ÷ {word(run, str(tree.right))}"
    return "partial sum" if isinstance(tree, Partial) else "arithmetic"


def column(run: Run, at: str) -> str:
    """What a column of factors is called: the site's own short name, with its part for LayerNorm's."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        return _arithmetic(run, parsed.tree)
    node = run.model.graph[parsed.site]
    long = node.short in ("out", "w", "b", "normalized", "mean", "scale")
    name = f"{node.part}.{node.short}" if long else node.short
    return f"slope of {name}" if parsed.kind == "grad" else name


def short(run: Run, at: str, here: str = "") -> str:
    """An address without what it shares with the address `here`: its block, and that it is attention's or the MLP's."""
    name, bracket, rest = at.partition("[")
    pieces, own = name.split("."), here.partition("[")[0].split(".")
    if pieces[0] == "blocks" and pieces[:2] == own[:2]:
        pieces = pieces[2:]
    if pieces[0] in ("attn", "mlp") and len(pieces) > 1:
        pieces = pieces[1:]
    return ".".join(pieces) + bracket + rest


def place(run: Run, axis: str, n: int) -> Markup:
    """One place on an axis: a token with its position, a vocabulary entry, or a bare index."""
    if axis in OF_TEXT and n < run.n_pos:
        return token_html(run.model.tokenizer, run.tokens[n]) + Markup(f' <span class="i">{n}</span>')
    if axis == "d_vocab":
        return token_html(run.model.tokenizer, n) + Markup(f' <span class="i">{n}</span>')
    return Markup(str(n))


def axis_words(axes: tuple[str, ...]) -> tuple[str, ...]:
    """What the axes of one site are called side by side: two kinds of entries say whose they are."""
    words = AXES | WHOSE if WHOSE.keys() <= set(axes) else AXES
    return tuple(words[axis] for axis in axes)


def whereabouts(run: Run, address: Address) -> list[tuple[str, Markup]]:
    """The indices of an address, each with its axis' name: head 1, query ␣to 14, key ␣Mary 2."""
    node = run.model.graph[address.site]
    found = [("block", Markup(str(node.block)))] if node.block is not None else []
    for axis, called, i in zip(node.axes, axis_words(node.axes), address.index, strict=False):
        if isinstance(i, int):
            found.append((called, place(run, axis, i)))
        else:
            stop = i.stop if i.stop is not None else run.size(axis)
            every = i.start is None and i.stop is None
            shown = f"all {count(stop)}" if every else f"{i.start or 0} to {stop - 1}"
            found.append((called, escape(shown)))
    return found
