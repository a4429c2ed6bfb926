"""Attention at its barest on a few words in two orders, with position rows left out or added.

The rows of the table are queries, keys and values themselves, no weights and no mask, so that what makes the order
visible can only be the rows of positions. Every number is an expression over W_E and W_pos.
"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from app.render import numbers
from model import Run
from model.errors import SettingError, TextError

MOST = 6  # rows: every number is an expression over all of them
SHOWN = 3  # entries of each new row
LONGEST = 3500  # signs of an expression that a link can carry
WORDS = "dog bites man"
SHORT_OF_WORDS = ("dog", "sat", "mat")  # for a closed vocabulary that has none of those


@live_part("Shuffle the words", home="transformer#where", rem=28)
class Shuffle(Settings):
    """Put the words in another order, with and without a row for each position, and compare the new rows."""

    words: str = Field(WORDS, max_length=80)
    positions: bool = False  # whether a row per position is added

    def view(self, scene: Scene) -> View:
        """Both orders listed word by word in the first; `largest` is the largest difference, at the token `where`."""
        words = words_of(scene, self.words)
        first = [token for word in words for token in word]
        places = [i for n in range(len(words)) for i in places_after_reversing(words, n)]
        second = [token for _, token in sorted(zip(places, first, strict=True))]
        apart = self.attend(scene.run, first) - self.attend(scene.run, second)[places]
        i, c = (int(x) for x in np.unravel_index(int(np.abs(apart).argmax()), apart.shape))
        largest = float(abs(apart[i, c]))
        two = [self.entry(first, i, c, apart.shape[1]), self.entry(second, places[i], c, apart.shape[1])]
        difference = "calc({}-{})".format(*(two if apart[i, c] >= 0 else two[::-1]))
        text = numbers.formatted(largest) if largest else "0"
        is_short = len(difference) < LONGEST
        return View(
            first=first,
            second=second,
            rows=[
                (token, self.entries(scene, first, i), self.entries(scene, second, places[i]))
                for i, token in enumerate(first)
            ],
            largest=scene.num.shown(difference, text, css="num live") if is_short else text,
            where=first[i],
            same=largest < 1e-12,
        )

    def entries(self, scene: Scene, order: list[int], i: int) -> list[Markup]:
        """The first entries of the new row of position i."""
        d = scene.model.config.d_model
        return [scene.num.calc(self.entry(order, i, c, d), css="num") for c in range(min(SHOWN, d))]

    def entry(self, order: list[int], i: int, c: int, d: int) -> str:
        """Entry c of the new row of position i: Σ_j softmax_j(x_i·x_j/√d) x_j[c]."""
        raised = [f"exp(sum({self.row(order, i)}*{self.row(order, j)})/sqrt({d}))" for j in range(len(order))]
        top = "+".join(f"{e}*{self.row(order, j, str(c))}" for j, e in enumerate(raised))
        return f"({top})/({'+'.join(raised)})"

    def row(self, order: list[int], i: int, column: str = ":") -> str:
        """A row that attention reads, or one entry of it, as an expression."""
        token = f"W_E[{order[i]},{column}]"
        return f"({token}+W_pos[{i},{column}])" if self.positions else token

    def attend(self, run: Run, order: list[int]) -> NDArray[np.float64]:
        """The new rows [row, d_model] in float64."""
        x = run.tensor("W_E").numpy()[order].astype(np.float64)
        if self.positions:
            x = x + run.tensor("W_pos").numpy()[: len(order)].astype(np.float64)
        raised = np.exp(x @ x.T / np.sqrt(x.shape[1]))
        return np.asarray(raised / raised.sum(1, keepdims=True) @ x)


def words_of(scene: Scene, text: str) -> list[list[int]]:
    """The tokens of each word."""
    tokenizer, most = scene.model.tokenizer, scene.model.config.n_ctx
    if not text.split():
        raise SettingError("words", "There are no words to shuffle.", "Type two or three, as in dog bites man.")
    try:
        words = [tokenizer.encode(f" {word}") for word in text.split()]
    except TextError:
        if text != WORDS:
            raise
        words = [tokenizer.encode(f" {word}") for word in SHORT_OF_WORDS]
    n = sum(map(len, words))
    if n > MOST:
        hint = "Take fewer or shorter words."
        raise SettingError("words", f"These words are {n} tokens; this table holds {MOST}.", hint)
    if n > most:
        raise SettingError("words", f"This model reads only {most} tokens.", "Take fewer words.")
    return words


def places_after_reversing(words: list[list[int]], n: int) -> range:
    """The positions of the n-th word's tokens when the words stand in the opposite order."""
    start = sum(len(word) for word in words[n + 1 :])
    return range(start, start + len(words[n]))
