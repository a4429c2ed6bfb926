"""Generation: read the text, choose a token, append it, ask again; each step's choice and cache kept for a reader.

When the context is full, the oldest tokens are dropped: the start token, if the text begins with it, and the newest
ones stay, half a context in all. Every token that stays then stands at an earlier position, so it gets another
position vector, and every key and value made from it changes: the cache is worthless and is built again. (Dropping
only one token would keep more of the text, but rebuild the whole cache at every step.) What is dropped depends on the
length alone, so a text continued later goes on as if it had been made in one go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import TextError
from model.runtime.kv_cache import KVCache, Rows, logits_without_cache
from model.runtime.loaded import LoadedModel
from model.runtime.sample import Choice, Sampling, check_whole, choose

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Comparison:
    """The same logits computed without the cache."""

    seconds: float
    difference: float  # the largest |with − without| over the vocabulary
    scale: float  # the largest |logit|, which says how much that is


@dataclass(frozen=True)
class Step:
    """One token made.

    index       0 for the first step
    read        the tokens that the network had before it; the last one's logits made the choice
    dropped     how many tokens of the text before those no longer fit the context
    rebuilt     True where the cache was thrown away because tokens were just dropped
    rows        rows of keys and values kept and computed (without the cache: all computed)
    choice      the choice laid open; `choice.token` is what the draw gave
    token       what was appended: the choice, or the token that the reader put in its place (`forced`)
    seconds     for the logits, with the cache unless it is off
    comparison  the other way, where it was asked for
    end         "" where it goes on, else why this was the last: "end token", "stop text" or "length"
    """

    index: int
    read: tuple[int, ...]
    dropped: int
    rebuilt: bool
    rows: Rows
    choice: Choice
    token: int
    forced: bool
    seconds: float
    comparison: Comparison | None
    end: str

    @property
    def prob(self) -> float:
        """The probability that the model itself gave the token: before temperature and cuts."""
        return float(self.choice.probs[self.token])


def generate(
    model: LoadedModel,
    text: str | Sequence[int],
    steps: int,
    *,
    bos: bool = True,
    stop: str | Sequence[str] = (),
    forced: Mapping[int, int] | None = None,
    use_cache: bool = True,
    compare: bool = False,
    **settings: Any,
) -> Iterator[Step]:
    """Continue `text` (or token ids) by up to `steps` tokens, yielding each step as it is made.

    It ends early after the model's end token, or when what was generated contains a `stop` text. `forced` puts given
    tokens at some steps (step index -> token id) instead of the draw's; `compare` computes every step both ways.
    `settings` are fields of `Sampling`; bad ones raise SettingError at once, not at the first step.
    """
    sampling = Sampling(**settings)
    check_whole("steps", steps, None, "Write how many tokens to make, such as 20.")
    tokens = model.encode(text, bos=bos) if isinstance(text, str) else list(text)
    if not tokens:
        raise TextError("There is nothing to continue: no tokens were given.", "Type a word.")
    forced = forced or {}
    for name, ids in (("text", tokens), ("forced", forced.values())):
        for token in ids:
            check_whole(name, token, model.config.d_vocab - 1, "Token ids are counted from 0.")
    for index in forced:
        check_whole("forced", index, steps - 1, "Steps are counted from 0.")
    stops = [s for s in ([stop] if isinstance(stop, str) else stop) if s]
    return _steps(Reader(model, tokens, use_cache), steps, sampling, stops, forced, compare)


def _steps(
    reader: Reader, steps: int, sampling: Sampling, stops: list[str], forced: Mapping[int, int], compare: bool
) -> Iterator[Step]:
    made: list[int] = []
    for index in range(steps):
        logits, rows, seconds = reader.read()
        window = reader.window
        choice = choose(logits, sampling, position=len(reader.tokens), t=len(window) - 1)
        token = forced.get(index, choice.token)
        made.append(token)
        end = _end(reader.model, made, stops, steps)
        yield Step(
            index=index,
            read=tuple(window),
            dropped=reader.dropped,
            rebuilt=reader.rebuilt,
            rows=rows,
            choice=choice,
            token=token,
            forced=index in forced,
            seconds=seconds,
            comparison=_compared(reader.model, window, logits) if compare and reader.cache is not None else None,
            end=end,
        )
        if end:
            return
        reader.tokens.append(token)


def _end(model: LoadedModel, made: list[int], stops: list[str], steps: int) -> str:
    if made[-1] == model.tokenizer.start_id:
        return "end token"
    if stops and any(stop in model.tokenizer.decode(made) for stop in stops):
        return "stop text"
    return "length" if len(made) == steps else ""


class Reader:
    """All tokens so far, the window of them that the network reads, and the cache over that window."""

    def __init__(self, model: LoadedModel, tokens: Sequence[int], use_cache: bool) -> None:
        self.model, self.tokens = model, list(tokens)
        self.cache = KVCache(model.capture.net) if use_cache else None
        self.dropped, self.rebuilt = 0, False

    @property
    def window(self) -> list[int]:
        """The tokens that are not dropped."""
        return window_of(self.tokens, self.model.config.n_ctx, self.model.tokenizer.start_id)

    def read(self) -> tuple[Logits, Rows, float]:
        """Logits after the last token, which rows were computed for them, and the seconds it took."""
        window = self.window
        dropped_before, self.dropped = self.dropped, len(self.tokens) - len(window)
        self.rebuilt = self.dropped > dropped_before
        started = time.perf_counter()
        if self.cache is None:
            rows, logits = Rows(0, len(window)), logits_without_cache(self.model.capture.net, window)
        else:
            kept = 0 if self.rebuilt else self.cache.length
            self.cache.length = kept
            rows, logits = Rows(kept, len(window) - kept), self.cache.append(window[kept:])
        return logits.numpy(), rows, time.perf_counter() - started


def window_of(tokens: list[int], n_ctx: int, start_id: int) -> list[int]:
    """All tokens while they fit; after that the start token, if the text has it, and the newest.

    The window shrinks to half the context whenever it would exceed it, and grows from there.
    """
    if len(tokens) <= n_ctx:
        return tokens
    half = max(1, n_ctx // 2)
    length = half + (len(tokens) - n_ctx - 1) % (n_ctx + 1 - half)
    if tokens[0] == start_id and length > 1:
        return [start_id, *tokens[1 - length :]]
    return tokens[-length:]


def _compared(model: LoadedModel, window: list[int], logits: Logits) -> Comparison:
    started = time.perf_counter()
    other = logits_without_cache(model.capture.net, window).numpy()
    seconds = time.perf_counter() - started
    return Comparison(seconds, float(np.abs(logits - other).max()), float(np.abs(other).max()))
