"""The texts that a head's score was measured on, one by one: each share as an expression over that text's own pattern.

`heads` averages over texts in one batch. Here the same shares can be opened: a text is a run like any other, and
the share is the mean, over the queries that count, of the attention that they give to the keys that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from model.arch.network import Network
from model.errors import TextError
from model.study.heads import TEXTS, Loaded, attention_patterns, earlier, givings_for, repeated_tokens, start_and_text

REPEATS = 4
MOST_QUERIES = 96  # of a longer text no expression is written


@dataclass(frozen=True)
class HeadText:
    """One text: its tokens with the start token in front, and the queries that count, each with its keys.

    `group` tells the two halves of the giver/receiver sentences apart: of their two means the smaller is the score.
    """

    tokens: tuple[int, ...]
    looks: tuple[tuple[int, tuple[int, ...]], ...]
    group: str = ""

    def share(self, block: int, head: int) -> str:
        """The head's share as an expression over this text's run; "" where no query counts, or too many."""
        if not self.looks or len(self.looks) > MOST_QUERIES:
            return ""
        pattern = f"blocks.{block}.attn.pattern[{head},"
        if len(self.looks) > 1 and all(keys == (0,) for _, keys in self.looks):
            return f"mean({pattern}{self.looks[0][0]}:,0])"
        entries = "+".join(f"{pattern}{query},{key}]" for query, keys in self.looks for key in keys)
        return f"({entries})/{len(self.looks)}" if len(self.looks) > 1 else entries


def looks(kind: str, tokens: Sequence[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The queries of a text that count for a kind of head (previous, start, duplicate, induction), with their keys."""
    rows: dict[int, list[int]] = {t: [] for t in range(len(tokens))}
    if kind in ("previous", "start"):
        rows = {t: [t - 1 if kind == "previous" else 0] for t in range(2, len(tokens))}
    elif kind == "duplicate":
        rows = {t: earlier(tokens, t) for t in rows}
    elif kind == "induction":
        rows = {t: [k + 1 for k in earlier(tokens, t) if k + 1 < t] for t in rows}
    return tuple((t, tuple(keys)) for t, keys in rows.items() if keys)


def texts_of(model: Loaded, kind: str) -> list[HeadText]:
    """The texts that the score of this kind (a key of KINDS) is a mean over; [] where it has none."""
    if kind in ("previous", "start"):
        try:
            texts = [start_and_text(model, text) for text in TEXTS]
        except TextError:
            return []
        return [HeadText(tuple(tokens), looks(kind, tokens)) for tokens in texts]
    if kind in ("duplicate", "induction"):
        rows = [repeated_tokens(model.config, model.tokenizer.start_id, seed) for seed in range(REPEATS)]
        return [HeadText(tuple(tokens), looks(kind, tokens)) for tokens in rows]
    found = []
    for case in givings_for(model):
        first_receives = case.receiver_at < case.giver_at
        to_receiver = kind == "receiver" or (kind == "first_name" and first_receives) or (
            kind == "second_name" and not first_receives
        )  # fmt: skip
        key = case.receiver_at if to_receiver else case.giver_at
        group = "the first name receives" if first_receives else "the second name receives"
        found.append(HeadText(tuple(case.ids), ((len(case.ids) - 1, (key,)),), group))
    return found


def shares(net: Network, texts: Sequence[HeadText], block: int, head: int) -> list[float]:
    """Each text's share of the head's attention, measured; texts of one length go through the network together."""
    found: dict[int, float] = {}
    for length in {len(text.tokens) for text in texts}:
        alike = [n for n, text in enumerate(texts) if len(text.tokens) == length]
        patterns = attention_patterns(net, torch.tensor([texts[n].tokens for n in alike]))[block, :, head]
        for n, pattern in zip(alike, patterns, strict=True):
            sums = [float(pattern[query, list(keys)].sum()) for query, keys in texts[n].looks]
            found[n] = sum(sums) / len(sums)
    return [found[n] for n in range(len(texts))]
