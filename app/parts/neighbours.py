"""Two tokens of the real embedding table: their dot product, their cosine, and the tokens that lie nearest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import Field

from app.panels.sentence import writable
from app.parts import base
from app.parts.base import Part, Scene
from model.errors import ReaderError, SettingError

NEAREST = 8
WANTED = (" cat", " dog")


class Settings(base.Settings):
    """Two tokens, each by its text or as `id:17`; left out, cat and dog where the vocabulary has them."""

    a: str = Field("", max_length=60)
    b: str = Field("", max_length=60)


@dataclass(frozen=True)
class Near:
    """A token, its cosine with `a` as an expression, and how to write it in the form."""

    shown: Markup
    cos: str
    written: str
    width: float


@dataclass(frozen=True)
class View:
    """`dot`, `la`, `lb`, `cos` are expressions. `middle` is the token in the middle of the ranking."""

    a: Markup
    b: Markup
    written: tuple[str, str]
    dot: str
    la: str
    lb: str
    cos: str
    near: list[Near]
    middle: Near


def view(scene: Scene, s: Settings) -> View:
    a, b = (token_of(scene, name, text, n) for n, (name, text) in enumerate((("a", s.a), ("b", s.b))))
    cosines = cosines_with(scene, a)
    used = scene.model.tokenizer.n_vocab
    ranking = [int(v) for v in np.argsort(-cosines[:used], kind="stable") if v != a]
    num = scene.num

    def near(v: int) -> Near:
        width = round(100 * max(float(cosines[v]), 0.0), 1)
        return Near(num.token(v), cosine(a, v), writable(scene.model, v), width)

    return View(
        a=num.token(a), b=num.token(b), written=(writable(scene.model, a), writable(scene.model, b)),
        dot=f"sum(W_E[{a},:]*W_E[{b},:])", la=length(a), lb=length(b), cos=cosine(a, b),
        near=[near(v) for v in ranking[:NEAREST]], middle=near(middle_word(scene, ranking)),
    )  # fmt: skip


def middle_word(scene: Scene, ranking: list[int]) -> int:
    """The first whole word from the middle of a ranking on; the middle itself where there is none."""
    lower = ranking[len(ranking) // 2 :] or ranking
    texts = ((v, scene.model.tokenizer.text(v) or "") for v in lower)
    return next((v for v, text in texts if text.startswith(" ") and text[1:].isalpha()), lower[0])


def token_of(scene: Scene, name: str, text: str, n: int) -> int:
    """The token that a setting names; where it is left out, a usual word, or the n-th token of the text."""
    model = scene.model
    for candidate in [text] if text else [WANTED[n]]:
        try:
            found = model.target_id(candidate)
        except ReaderError as error:
            if text:
                raise SettingError(name, error.message, f"A leading space counts: “ {text.strip()}”.") from None
            found = None
        if found is not None:
            return found
    return scene.run.tokens[min(n, scene.last)]


def cosines_with(scene: Scene, token: int) -> NDArray[np.float32]:
    """The cosine of every row of the table with one row, in float32: it ranks, the numbers shown are exact."""
    table = scene.run.tensor("W_E").numpy()
    lengths = np.linalg.norm(table, axis=1)
    safe = np.where(lengths > 0, lengths, 1.0)
    return np.asarray(table @ table[token] / (safe * safe[token]))


def length(v: int) -> str:
    return f"sqrt(sum(W_E[{v},:]*W_E[{v},:]))"


def cosine(a: int, b: int) -> str:
    return f"sum(W_E[{a},:]*W_E[{b},:])/({length(a)}*{length(b)})"


PART = Part(
    "neighbours", "Neighbours in the real table", Settings, view, home="transformer#same-direction", rem=28,
    about="Pick any two tokens of the model’s table and see how alike their rows are, and which rows are nearest.",
)  # fmt: skip
