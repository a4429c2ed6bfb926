"""Attention at its barest on a few words in two orders, with position rows left out or added.

The rows of the table are queries, keys and values themselves, no weights and no mask, so that what makes the order
visible can only be the rows of positions. Every number is an expression over W_E and W_pos.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene, formatted
from model.errors import SettingError, TextError

MOST = 6  # rows: every number is an expression over all of them
SHOWN = 3  # entries of each new row


LONGEST = 3500  # signs of an expression that a link can carry


class Settings(base.Settings):
    """The words, and whether a row per position is added."""

    words: str = Field("dog bites man", max_length=80)
    positions: bool = False


@dataclass(frozen=True)
class Row:
    """A token in one of the orders: its position, and the first entries of its new row."""

    shown: Markup
    position: int
    entries: list[Markup]


@dataclass(frozen=True)
class View:
    """Both orders listed word by word in the first order; `largest` is the largest difference between the two, at
    the token `where`, an expression where that is short enough.
    """

    first: Markup
    second: Markup
    rows: list[tuple[Row, Row]]
    largest: Markup
    where: Markup
    same: bool
    d: int


def view(scene: Scene, s: Settings) -> View:
    words = words_of(scene, s.words)
    first = [token for word in words for token in word]
    places = [i for n, word in enumerate(words) for i in place_after_reversing(words, n, len(word))]
    second = [token for _, token in sorted(zip(places, first, strict=True))]
    num, d = scene.num, scene.model.config.d_model
    shown = min(SHOWN, d)
    rows = []
    for i, token in enumerate(first):
        pair = tuple(
            Row(num.token(token), at, [num.calc(entry(order, at, c, s.positions, d), "3", css="num")
                                       for c in range(shown)])
            for order, at in ((first, i), (second, places[i]))
        )  # fmt: skip
        rows.append((pair[0], pair[1]))
    before, after = attend(scene, first, s.positions), attend(scene, second, s.positions)
    apart = before - after[places]
    i, c = (int(x) for x in np.unravel_index(int(np.abs(apart).argmax()), apart.shape))
    largest = float(abs(apart[i, c]))
    two = (entry(first, i, c, s.positions, d), entry(second, places[i], c, s.positions, d))
    two = two if apart[i, c] >= 0 else two[::-1]
    text = formatted(largest, "3") if largest else "0"
    difference = f"calc({two[0]}-{two[1]})"
    joined = Markup(" ")
    return View(
        joined.join(map(num.token, first)), joined.join(map(num.token, second)), rows,
        num.shown(difference, text, css="num live") if len(difference) < LONGEST else Markup(text),
        num.token(first[i]), largest < 1e-12, d,
    )  # fmt: skip


def words_of(scene: Scene, text: str) -> list[list[int]]:
    """The tokens of each word. A closed vocabulary without these words gets its own."""
    if not text.split():
        raise SettingError("words", "There are no words to shuffle.", "Type two or three, as in dog bites man.")
    try:
        words = [scene.model.tokenizer.encode(f" {word}") for word in text.split()]
    except TextError:
        if text != Settings().words:
            raise
        words = [scene.model.tokenizer.encode(f" {word}") for word in ("dog", "sat", "mat")]
    n = sum(map(len, words))
    if n > MOST:
        raise SettingError(
            "words", f"These words are {n} tokens; this table holds {MOST}.", "Take fewer or shorter words."
        )
    if n > scene.model.config.n_ctx:
        raise SettingError("words", f"This model reads only {scene.model.config.n_ctx} tokens.", "Take fewer words.")
    return words


def place_after_reversing(words: list[list[int]], n: int, length: int) -> range:
    """The positions of the n-th word's tokens when the words stand in the opposite order."""
    start = sum(len(word) for word in words[n + 1 :])
    return range(start, start + length)


def row(order: list[int], i: int, positions: bool, column: str = ":") -> str:
    """A row that attention reads, or one entry of it, as an expression."""
    return f"(W_E[{order[i]},{column}]+W_pos[{i},{column}])" if positions else f"W_E[{order[i]},{column}]"


def entry(order: list[int], i: int, c: int, positions: bool, d: int) -> str:
    """Entry c of the new row of position i: Σ_j softmax_j(x_i·x_j/√d) x_j[c]."""
    raised = [f"exp(sum({row(order, i, positions)}*{row(order, j, positions)})/sqrt({d}))" for j in range(len(order))]
    top = "+".join(f"{e}*{row(order, j, positions, str(c))}" for j, e in enumerate(raised))
    return f"({top})/({'+'.join(raised)})"


def attend(scene: Scene, order: list[int], positions: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The new rows [row, d_model] in float64."""
    x = scene.run.tensor("W_E").numpy()[order].astype(np.float64)
    if positions:
        x = x + scene.run.tensor("W_pos").numpy()[: len(order)].astype(np.float64)
    raised = np.exp(x @ x.T / np.sqrt(x.shape[1]))
    return np.asarray(raised / raised.sum(1, keepdims=True) @ x)


PART = Part(
    "shuffle", "Shuffle the words", Settings, view, home="transformer#where", rem=28,
    about="Put the words in another order, with and without a row for each position, and compare the new rows.",
)  # fmt: skip
