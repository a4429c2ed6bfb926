"""What addresses, axes and places are called in the why panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from app.panels import steps
from app.render.axes import place_token
from app.render.numbers import count
from app.render.tokens import token_html
from model.address.parser import parse
from model.address.trees import Address, Binary, Calc, Call, Node, Partial
from model.arch.base import axis_words

if TYPE_CHECKING:
    from model import Run


def word(run: Run, at: str) -> str:
    """An address in a word: `blocks.2.attn.pattern[1,14,2]` is a weight."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        return _arithmetic(run, parsed.tree)
    node = run.model.graph[parsed.site]
    if not parsed.is_single or (node.axes and not parsed.index):
        return short(run, at, at)
    return quantity(node.word, parsed)


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
    """What a column of factors is called."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        return _arithmetic(run, parsed.tree)
    node = run.model.graph[parsed.site]
    return f"slope of {node.heading}" if parsed.kind == "grad" else node.heading


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
    token = place_token(run, axis, n) if axis != "n_ctx" else None
    if token is None:
        return Markup(str(n))
    return token_html(run.model.tokenizer, token) + Markup(f' <span class="i">{n}</span>')


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
