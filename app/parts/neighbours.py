"""Two tokens of the real embedding table: their dot product, their cosine, and the tokens that lie nearest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from app.panels.sentence import writable
from app.parts.base import Scene, Settings, View, live_part
from app.parts.expressions import length
from model.errors import ReaderError, SettingError

NEAREST = 8
WANTED = {"a": " cat", "b": " dog"}


@live_part("Neighbours in the real table", home="transformer#same-direction", rem=28)
class Neighbours(Settings):
    """Pick any two tokens of the model’s table and see how alike their rows are, and which rows are nearest."""

    # Each by its text or as `id:17`; left out, cat and dog where the vocabulary has them.
    a: str = Field("", max_length=60)
    b: str = Field("", max_length=60)

    def view(self, scene: Scene) -> View:
        """Lengths and cosines are expressions. `middle` is the token in the middle of the ranking."""
        model = scene.model
        a, b = (token_of(scene, name, getattr(self, name), n) for n, name in enumerate(WANTED))
        cosines = cosines_with(scene, a)
        ranking = [int(v) for v in np.argsort(-cosines[: model.tokenizer.n_vocab], kind="stable") if v != a]

        def neighbour(v: int) -> View:
            return View(token=v, cos=cosine(a, v), written=writable(model, v), share=max(float(cosines[v]), 0.0))

        return View(
            a=a,
            b=b,
            written=(writable(model, a), writable(model, b)),
            dot=f"sum(W_E[{a},:]*W_E[{b},:])",
            lengths=(length(f"W_E[{a},:]"), length(f"W_E[{b},:]")),
            cos=cosine(a, b),
            nearest=[neighbour(v) for v in ranking[:NEAREST]],
            middle=neighbour(middle_word(scene, ranking)),
        )


def middle_word(scene: Scene, ranking: list[int]) -> int:
    """The first whole word from the middle of a ranking on; the middle itself where there is none."""
    lower = ranking[len(ranking) // 2 :] or ranking
    texts = ((v, scene.model.tokenizer.text(v) or "") for v in lower)
    return next((v for v, text in texts if text.startswith(" ") and text[1:].isalpha()), lower[0])


def token_of(scene: Scene, name: str, text: str, n: int) -> int:
    """The token that a setting names; where it is left out, a usual word, or the n-th token of the text."""
    try:
        token = scene.model.target_id(text or WANTED[name])
    except ReaderError as error:
        if text:
            raise SettingError(name, error.message, f"A leading space counts: “ {text.strip()}”.") from None
        token = None
    return scene.run.tokens[min(n, scene.last)] if token is None else token


def cosines_with(scene: Scene, token: int) -> NDArray[np.float32]:
    """The cosine of every row of the table with one row, in float32: it ranks, the numbers shown are exact."""
    table = scene.run.tensor("W_E").numpy()
    lengths = np.linalg.norm(table, axis=1)
    safe = np.where(lengths > 0, lengths, 1.0)
    return np.asarray(table @ table[token] / (safe * safe[token]))


def cosine(a: int, b: int) -> str:
    return f"sum(W_E[{a},:]*W_E[{b},:])/({length(f'W_E[{a},:]')}*{length(f'W_E[{b},:]')})"
