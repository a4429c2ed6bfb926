"""What a shared link's card says: the text, one number of its run and its address, and what made it.

`explanation_card` and `guesses_card` gather plain words and numbers; `app.features.share.card_picture` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.panels import steps
from app.panels.sentence import likeliest, roles
from app.panels.why import names as why_names
from app.render import numbers
from app.render.heat import ROOT, exponent_of
from app.render.numbers import exact, short
from model.address.parser import Address, Calc, parse
from model.arch.base import AXES, axis_words

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation
    from model.explain.terms import Factor, Term

BARS = 5
MOST_CELLS = 48  # rows and columns of a picture of several numbers
LONGEST_ALT = 420


@dataclass(frozen=True)
class Piece:
    """One token of the text; `marked` where the number stands at it."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Bar:
    """One line below the number: a name, a value in figures, and the value itself, which the bar shows."""

    name: str
    shown: str
    value: float
    is_rest: bool = False


@dataclass(frozen=True)
class Card:
    """`big` is the number (or a title) and `lines` what it is and where it stands; `bars` are its first terms or the
    likeliest next tokens, `grid` several numbers, drawn by the scale of `app.render.heat` with this `exponent`.

    `shares` says that the bars are parts of a whole, so that a bar of full width is all of it.
    """

    model: str
    address: str
    pieces: tuple[Piece, ...]
    big: str = ""
    lines: tuple[str, ...] = ()
    caption: str = ""
    bars: tuple[Bar, ...] = ()
    grid: NDArray[Any] | None = None
    exponent: float = ROOT
    shares: bool = False
    is_number: bool = False

    @property
    def alt(self) -> str:
        """The same in words, for those who do not see the picture."""
        where = ", ".join(filter(None, self.lines))
        what = f"{where}: {self.address} = {self.big}." if self.is_number else f"{self.big}. {self.address}."
        text = "".join(piece.text for piece in self.pieces)
        lines = "; ".join(f"{bar.name} {bar.shown}" for bar in self.bars)
        said = f"{what} {self.caption}{f': {lines}' if lines else ''}. Text: {text}"
        return said if len(said) <= LONGEST_ALT else said[: LONGEST_ALT - 1] + "…"


def explanation_card(run: Run, at: str) -> Card:
    """The card of a number with its first terms, or of several numbers with a picture of them.

    Raises AddressError where `at` names nothing in this run.
    """
    parsed = parse(at)
    if steps.must_wait(run, at):
        return guesses_card(run, "A number after learning steps", at)
    if isinstance(parsed, Address) and not run.check(parsed).is_single:
        return _grid_card(run, run.check(parsed))
    e = run.explain(at, limit=BARS, order="size")
    if e.combine == "given" or not e.terms:
        card = guesses_card(run, "", at, f"{_end(run, e)}. ", marked=at)
    else:
        card = replace(_card(run, at), caption=_caption(e), bars=_bars(run, e), shares=e.combine == "quotient")
    return replace(card, is_number=True, lines=_lines(run, e), big=exact(e.value), address=e.address)


def guesses_card(run: Run, title: str, about: str, before: str = "", marked: str = "") -> Card:
    """The card of a page: its title, and the likeliest next tokens of its run."""
    tokenizer = run.model.tokenizer
    guesses = tuple(Bar(tokenizer.show(token), numbers.percent(p), p) for token, p in likeliest(run)[:BARS])
    caption = f"{before}What {run.model.name} expects next"
    return replace(_card(run, marked), big=title, address=about, caption=caption, bars=guesses, shares=True)


def _card(run: Run, at: str) -> Card:
    """The run's part of a card; its text's tokens that the address names are marked."""
    marked = roles(run, at) if at else {}
    pieces = tuple(Piece(run.model.tokenizer.show(token), t in marked) for t, token in enumerate(run.tokens))
    return Card(model=run.model.name, pieces=pieces, address=at)


def _lines(run: Run, e: Explanation) -> tuple[str, ...]:
    """What the number is called; where it stands, with the tokens there."""
    parsed = parse(e.address)
    if isinstance(parsed, Calc):
        return ("Arithmetic on numbers of this run",)
    node = run.model.graph[parsed.site]
    name = why_names.quantity(node.title if not parsed.quantity else node.title.lower(), parsed)
    places = [f"block {node.block}"] if node.block is not None else []
    for axis, called, i in zip(node.axes, axis_words(node.axes), parsed.index, strict=False):
        if isinstance(i, int):
            places.append(f"{called} {_place(run, axis, i)}")
    return tuple(filter(None, (name[:1].upper() + name[1:], ", ".join(places))))


def _place(run: Run, axis: str, i: int) -> str:
    """A token with its index, or a bare index."""
    tokenizer = run.model.tokenizer
    if AXES[axis].is_text and i < run.n_pos:
        return f"{tokenizer.show(run.tokens[i])} ({i})"
    return f"{tokenizer.show(i)} ({i})" if axis == "d_vocab" else str(i)


# -- terms


def _caption(e: Explanation) -> str:
    if e.combine == "quotient":
        return f"The shares of all {numbers.count(e.n_terms - 1)} exponentials" if e.n_terms > 2 else "A quotient"
    if e.combine == "sum" and e.n_terms > 1:
        return f"The sum of {numbers.count(e.n_terms)} terms, largest first"
    return "Made from" if e.n_terms == 1 else f"Made from {numbers.count(e.n_terms)} numbers"


def _bars(run: Run, e: Explanation) -> tuple[Bar, ...]:
    """The listed terms by name; for a sum also what the others add up to.

    Of a quotient they are parts of what stands below the line, which comes after the one term above.
    """
    write = numbers.percent if e.combine == "quotient" else short
    if e.combine == "quotient":
        below = float(e.products[1:].sum())
        parts = [(term, term.product / below if below else 0.0) for term in e.terms if term.index > 0]
        rest, n = max(1 - sum(share for _, share in parts), 0.0), e.n_terms - 1
    else:
        parts = [(term, term.product) for term in e.terms]
        rest, n = e.rest, e.n_terms
    found = [Bar(_name(run, e, term), write(value), value) for term, value in parts]
    if len(parts) < n and e.combine in ("sum", "quotient"):
        found.append(Bar(f"the other {numbers.count(n - len(parts))}", write(rest), rest, is_rest=True))
    return tuple(found)


def _name(run: Run, e: Explanation, term: Term) -> str:
    """A term's name: its place on the axes summed over, what it is called, or the numbers multiplied."""
    if term.place:
        return ", ".join(f"{AXES[axis].word} {_place(run, axis, i)}" for axis, i in term.place)
    if term.label:
        return term.label
    minus = "−" if any(factor.constant == "-1" for factor in term.factors) else ""
    return minus + " × ".join(_factor(run, e, factor) for factor in term.factors if factor.constant != "-1")


def _factor(run: Run, e: Explanation, factor: Factor) -> str:
    return why_names.short(run, factor.address, e.address) if factor.address else numbers.value(factor.value)


def _end(run: Run, e: Explanation) -> str:
    """Why no other number makes this one: a weight, a token's id."""
    is_weight = e.site in run.model.graph and run.model.graph[e.site].is_parameter
    return "Set once by training" if is_weight else "The chain of reasons ends here"


# -- several numbers


def _grid_card(run: Run, address: Address) -> Card:
    """A whole site or part of one as a picture of its first rows and columns."""
    node = run.model.graph[address.site]
    whole = run.values(address)
    values = np.atleast_2d(whole)
    while values.ndim > 2:
        values = values[0]
    rows, cols = (min(n, MOST_CELLS) for n in values.shape)
    size = " × ".join(map(numbers.count, whole.shape))
    finite = values[np.isfinite(values)]
    span = f" from {short(float(finite.min()))} to {short(float(finite.max()))}" if finite.size else ""
    cut = ", the first of them drawn" if (rows, cols) != values.shape else ""
    block = f", block {node.block}" if node.block is not None else ""
    return replace(
        _card(run, str(address)),
        big=f"{node.title}{block}",
        caption=f"{size} numbers{span}{cut}",
        grid=values[:rows, :cols],
        exponent=exponent_of(node.span, address.quantity),
    )
