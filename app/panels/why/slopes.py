"""A slope in words: who reads the number, which way the loss goes, through whom most, or why nothing happens at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.panels.why.links import Links
from app.panels.why.pictures import Picture, parts
from app.render import numbers
from app.render.charts import Ints
from app.render.numbers import exact, short
from model.arch.base import AXES
from model.ops.base import refs_in

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node
    from model.explain.explanation import Explanation
    from model.ops.base import Place


@dataclass(frozen=True)
class Reader:
    """One site that reads the number: terms `start` … `stop` − 1 of the slope come through it."""

    site: str
    words: str
    start: int
    stop: int
    value: float


def readers(run: Run, e: Explanation, node: Node, at: Place) -> list[Reader]:
    """Everything that hands a slope back to the number, in the order of the terms."""
    found, start = [], 0
    for passer, op in run.model.graph.gradient_rules(node.name) if node.name not in ("W_U", "loss") else ():
        n = sum(group.n for group in op.backward(run, node.name, at))
        words = run.model.graph.use(node, passer) or passer.as_reader
        value = float(e.products[start : start + n].sum())
        if n or node.name == "W_E":
            found.append(Reader(passer.name, words, start, start + n, value))
        start += n
    return found


# -- the sentence


def sentence(run: Run, e: Explanation, node: Node, at: Place) -> str:
    """Which way the loss goes, and what that comes through; {t3} is the token at position 3."""
    if e.combine == "given":
        return "The loss moves one for one with itself. Every other slope is counted from here."
    if e.value == 0:
        return "Nudging it does not move the loss at all: its slope is 0."
    way = "up" if e.value > 0 else "down"
    first = f"Nudge it up and the loss goes {way}, {exact(abs(e.value))} for each whole unit, while the nudge is small."
    return f"{first} {_through(run, e, node, at)}".rstrip()


def _through(run: Run, e: Explanation, node: Node, at: Place) -> str:
    if node.name == "logits":
        return _p_minus_y(run, at)
    if node.name == "W_U":
        return f"It is the same number as W_E[{at[1]},{at[0]}], which has two uses."
    found = readers(run, e, node, at)
    if node.name == "W_E":
        return _two_uses(run, found, at[0])
    if len(found) > 1:
        most = max(found, key=lambda reader: abs(reader.value))
        return f"{numbers.count(len(found))} sites read it; most comes through {most.words}."
    if not found:
        return ""
    return f"It works through {found[0].words}{_places(run, e, node, at, found[0])}."


def _places(run: Run, e: Explanation, node: Node, at: Place, reader: Reader) -> str:
    """At how many of its places a reader reads the number, and which of them counts most; "" where it is one."""
    read = _read_at(run, node, at, reader)
    shape = run.shape(reader.site)
    flat = np.ravel_multi_index(tuple(read.T), shape) if shape else np.zeros(len(read), dtype=np.int64)
    places, which = np.unique(flat, return_inverse=True)  # of single numbers: rows take ten times as long
    if len(places) < 2:
        return ""
    # Several terms may come through one place: together they are what it counts for.
    sums = np.bincount(which, weights=e.products[reader.start : reader.stop])
    most = int(np.argmax(np.abs(sums)))
    axes = run.model.graph[reader.site].axes
    varies = (read != read[0]).any(axis=0)
    strongest = np.unravel_index(places[most], shape)
    named = [_place(axis, int(n)) for axis, n, runs in zip(axes, strongest, varies, strict=True) if runs]
    return f" at {numbers.count(len(places))} places, most at {', '.join(named)}"


def _read_at(run: Run, node: Node, at: Place, reader: Reader) -> Ints:
    """For every term the place of the reader whose slope it passes on, one row a term."""
    rows = []
    op = next(op for passer, op in run.model.graph.gradient_rules(node.name) if passer.name == reader.site)
    for group in op.backward(run, node.name, at):
        refs = [ref for column in group.factors for ref in refs_in(column)]
        index = next(ref.index for ref in refs if ref.site == reader.site and ref.quantity == "grad")
        columns = [np.broadcast_to(np.asarray(i, dtype=np.int64), (group.n,)) for i in index]
        rows.append(np.stack(columns, axis=1) if columns else np.zeros((group.n, 0), dtype=np.int64))
    return np.concatenate(rows)


def _place(axis: str, n: int) -> str:
    if AXES[axis].is_text:
        return f"{{t{n}}} (position {n})"
    return f"{{v{n}}}" if AXES[axis].tokens == "vocabulary" else f"{AXES[axis].word} {n}"


def _p_minus_y(run: Run, at: Place) -> str:
    t, v = at
    share = f", divided by the {len(run.scored)} positions that count" if len(run.scored) > 1 else ""
    p = float(run.values(f"probs[{t},{v}]"))
    what = "is the right answer, so p − 1" if v == run.next_token(t) else "is not the right answer, so p − 0"
    return f"The slope is p − y: {{v{v}}} was given p = {short(p)} and {what}{share}."


def _two_uses(run: Run, found: list[Reader], token: int) -> str:
    embedding = found[0]
    if embedding.start == embedding.stop:
        return f"{{v{token}}} does not stand in the text, so only its use as unembedding counts."
    uses = embedding.stop - embedding.start
    times = "once" if uses == 1 else f"{uses} times"
    return (
        f"W_E is used twice: as embedding, where {{v{token}}} stands in the text ({times}), and as unembedding, "
        f"where it makes the logits of {{v{token}}}."
    )


def why_zero(run: Run, e: Explanation) -> str:
    """Why a slope that has terms is 0 all the same."""
    if e.value != 0 or e.notes or not e.n_terms:
        return ""
    slopes = [f.value for term in e.terms for f in term.factors if f.address and ".grad" in f.address]
    if any(slopes):
        return "What reads it has a slope, but does not move with it (or the parts cancel)."
    where = f"position {run.scored.start}" if len(run.scored) == 1 else "the positions that have a next token"
    return (
        f"The loss is read at {where} alone, and nothing that reads this number reaches it: every reader’s slope is 0."
    )


# -- by reader


def by_reader(run: Run, e: Explanation, node: Node, at: Place, links: Links) -> Picture | None:
    """The slope as a sum over its readers, where there are several; each subtotal leads to its terms."""
    found = readers(run, e, node, at)
    if len(found) < 2 or node.name == "logits" or all(reader.stop - reader.start == 1 for reader in found):
        return None
    named = [(reader.words, reader.value, _subtotal(e, reader)) for reader in found]
    return parts("By its two uses" if node.name == "W_E" else "By what reads it", named, 72, links)


def _subtotal(e: Explanation, reader: Reader) -> str:
    """The address of the part of a slope that comes through one reader; "" where nothing does."""
    if reader.start == reader.stop:
        return ""
    return f"calc(partial({e.address},{reader.start}:{reader.stop}))"


# -- formulas


def formula(run: Run, e: Explanation, node: Node, at: Place) -> str:
    """At the logits the whole chain has a short form."""
    if node.name != "logits":
        return e.formula
    n = len(run.scored)
    front = rf"\tfrac{{1}}{{{n}}}" if n > 1 else ""
    inside = f"p_{{{at[0]},{at[1]}}} - y_{{{at[0]},{at[1]}}}"
    left = e.formula.split(" = ")[0]
    return f"{left} = {front}\\left({inside}\\right)" if front else f"{left} = {inside}"
