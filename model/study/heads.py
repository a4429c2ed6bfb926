"""What each attention head does, measured: scores from attention patterns, and what is lost without a head.

The scores are shares of attention, averaged over queries, so 1 is a head that does nothing else and 0 one that never
does it. Previous-token and start-token attention are read off ordinary sentences; same-token-earlier and induction off
random tokens given twice (Olsson et al. 2022), where nothing else can guide a head; the receiver score off sentences in
which one of two people gives the other something (Wang et al. 2022). A score says where a head looks, not what it
passes on: for the receiver an ablation shows how much the answer owes to the head.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from model.arch.base import Config
from model.arch.network import Network
from model.errors import TextError


class Encoder(Protocol):
    """The part of a tokenizer that is needed here."""

    start_id: int

    def encode(self, text: str) -> list[int]: ...


class Loaded(Protocol):
    """A loaded model, as far as it is needed here."""

    @property
    def net(self) -> Network: ...

    @property
    def config(self) -> Config: ...

    @property
    def tokenizer(self) -> Encoder: ...


@dataclass(frozen=True)
class HeadScores:
    """One head's shares of attention, each 0 to 1. None: this vocabulary or context can't hold the test's texts."""

    block: int
    head: int
    previous: float | None
    start: float | None
    duplicate: float | None
    induction: float | None
    receiver: float | None
    giver: float | None
    first_name: float | None
    second_name: float | None


# A score's name -> what a head with that score does, in words.
KINDS = {
    "previous": "looks at the token before",
    "start": "looks at the start token",
    "duplicate": "looks at earlier copies of the same token",
    "induction": "looks at what followed an earlier copy of the token",
    "receiver": "looks at the name that has not given",
    "giver": "looks at the name that gives",
    "first_name": "looks at the name that comes first, whoever gives",
    "second_name": "looks at the name that comes second, whoever gives",
}


def kinds_of(scores: HeadScores, at_least: float = 0.4) -> list[str]:
    """The names of the scores (keys of KINDS) that reach `at_least`, the largest first."""
    found = [(getattr(scores, kind), kind) for kind in KINDS]
    return [kind for value, kind in sorted(((v, k) for v, k in found if v is not None and v >= at_least), reverse=True)]


@dataclass(frozen=True)
class Ablation:
    """Mean probability of the receiver's name with one head at work, and with its output replaced by its mean.

    `giver_…` is the other name's: what a head that tells the two apart keeps down.
    """

    block: int
    head: int
    with_head: float
    without_head: float
    giver_with_head: float
    giver_without_head: float


# --- scores from one pattern [head, query, key] ---


def previous_score(pattern: Tensor) -> Tensor:
    """[head] mean attention to the token before, from position 2 on (before 2 it is the start token)."""
    return pattern.diagonal(-1, -2, -1)[:, 1:].mean(-1)


def start_score(pattern: Tensor) -> Tensor:
    """[head] mean attention to position 0, from position 2 on."""
    return pattern[:, 2:, 0].mean(-1)


def duplicate_score(pattern: Tensor, tokens: Sequence[int]) -> Tensor:
    """[head] mean attention to earlier copies of a position's own token, over the positions that have one."""
    return _mean_on(pattern, [earlier(tokens, t) for t in range(len(tokens))])


def induction_score(pattern: Tensor, tokens: Sequence[int]) -> Tensor:
    """[head] mean attention to the tokens right after earlier copies, over the positions that have such a one."""
    return _mean_on(pattern, [[k + 1 for k in earlier(tokens, t) if k + 1 < t] for t in range(len(tokens))])


def earlier(tokens: Sequence[int], t: int) -> list[int]:
    """The positions before t that hold the same token."""
    return [k for k in range(t) if tokens[k] == tokens[t]]


def _mean_on(pattern: Tensor, keys: list[list[int]]) -> Tensor:
    """[head] attention summed over each query's keys, averaged over the queries that have any."""
    sums = [pattern[:, t, ks].sum(-1) for t, ks in enumerate(keys) if ks]
    return torch.stack(sums).mean(0) if sums else torch.zeros(len(pattern))


# --- the texts ---

TEXTS = (
    "The little girl went to the park with her mother and saw a big red ball under the old tree.",
    "One day, a boy found a small key in the garden and asked his friend what it could open.",
    "The keys to the house are on the table, but the dog is not at home.",
)
PEOPLE = ("Mary", "John", "Tom", "Anna", "Jack", "Sarah", "James", "Paul")  # one token each in most vocabularies
PLACES = ("store", "park", "school")
GIFTS = ("drink", "book", "ball")


@dataclass(frozen=True)
class Giving:
    """One giver/receiver text as ids, cut before the receiver's name, and where both names stand first."""

    ids: list[int]
    receiver: int  # token id
    receiver_at: int
    giver_at: int


def givings(tokenizer: Encoder) -> list[Giving]:
    """Sentences over pairs of names: each pair in both orders, each with either of the two giving."""
    found = []
    for i, (first, second) in enumerate(pairwise(PEOPLE + PEOPLE[:1])):
        place, thing = PLACES[i % len(PLACES)], GIFTS[i // len(PLACES) % len(GIFTS)]
        for a, b in ((first, second), (second, first)):
            for giver, receiver in ((a, b), (b, a)):
                text = f"When {a} and {b} went to the {place}, {giver} gave a {thing} to"
                ids = [tokenizer.start_id, *tokenizer.encode(text)]
                receiver_id, giver_id = (tokenizer.encode(" " + name)[0] for name in (receiver, giver))
                found.append(Giving(ids, receiver_id, ids.index(receiver_id), ids.index(giver_id)))
    return found


def repeated_tokens(config: Config, start_id: int, seed: int, length: int = 24) -> list[int]:
    """The start token, then distinct random tokens, then the same again, as long as the context allows."""
    length = min(length, (config.n_ctx - 1) // 2, config.d_vocab - 1)
    once = random.Random(seed).sample([i for i in range(config.d_vocab) if i != start_id], length)
    return [start_id, *once, *once]


# --- running the network ---


@torch.no_grad()
def attention_patterns(net: Network, tokens: Tensor) -> Tensor:
    """[block, batch, head, query, key] of one forward pass over token ids [batch, pos]."""
    net = net.with_weights()
    patterns: list[Tensor] = []
    for n in range(net.config.n_layer):
        point = net.get_submodule(f"blocks.{n}.attn.pattern")
        point.register_forward_hook(lambda _module, _inputs, pattern: patterns.append(pattern))
    net(tokens)
    return torch.stack(patterns)


@torch.no_grad()
def logits_without(net: Network, tokens: Tensor, block: int, head: int) -> Tensor:
    """Logits [batch, pos, d_vocab] with one head's output z at each position replaced by its mean over the batch.

    The mean keeps what the head always says and takes away what it says about this text.
    """

    def replace(_module: nn.Module, _inputs: tuple[Tensor, ...], z: Tensor) -> Tensor:
        z = z.clone()  # [batch, pos, head, d_head]
        z[:, :, head] = z[:, :, head].mean(0)
        return z

    net = net.with_weights()
    net.get_submodule(f"blocks.{block}.attn.z").register_forward_hook(replace)
    logits: Tensor = net(tokens)
    return logits


def start_and_text(model: Loaded, text: str) -> list[int]:
    """Token ids with the start token in front, as far as the context reaches. Raises TextError."""
    return [model.tokenizer.start_id, *model.tokenizer.encode(text)][: model.config.n_ctx]


def _of_one_length(cases: list[Giving]) -> list[Giving]:
    """The cases of the commonest length: one batch, in which a position means the same in every text."""
    lengths = [len(c.ids) for c in cases]
    return [c for c in cases if len(c.ids) == max(set(lengths), key=lengths.count)]


def _scores_on_sentences(model: Loaded) -> Tensor | None:
    """[previous and start, block, head] averaged over TEXTS; None where the vocabulary or context can't hold them."""
    try:
        texts = [start_and_text(model, text) for text in TEXTS]
    except TextError:
        return None
    found = []
    for ids in texts:
        patterns = attention_patterns(model.net, torch.tensor([ids]))[:, 0]
        found.append(torch.stack([torch.stack([previous_score(p), start_score(p)]) for p in patterns], 1))
    return torch.stack(found).mean(0) if min(map(len, texts)) > 2 else None


def _scores_on_repeats(model: Loaded, n: int = 4) -> Tensor | None:
    """[duplicate and induction, block, head] averaged over n repeated sequences of random tokens."""
    rows = [repeated_tokens(model.config, model.tokenizer.start_id, seed) for seed in range(n)]
    if len(rows[0]) < 5:
        return None
    patterns = attention_patterns(model.net, torch.tensor(rows))
    kinds: tuple[Callable[[Tensor, Sequence[int]], Tensor], ...] = (duplicate_score, induction_score)
    by_row = [
        torch.stack([torch.stack([kind(block[i], rows[i]) for block in patterns]) for kind in kinds]) for i in range(n)
    ]
    return torch.stack(by_row).mean(0)


def givings_for(model: Loaded) -> list[Giving]:
    """The giver/receiver batch for this model; empty where its vocabulary or context can't hold it."""
    try:
        cases = _of_one_length(givings(model.tokenizer))
    except (TextError, ValueError):  # a closed vocabulary; a name that is not one token of its own
        return []
    return cases if len(cases[0].ids) <= model.config.n_ctx else []


def _scores_on_givings(model: Loaded) -> Tensor | None:
    """[receiver, giver, first and second name, block, head]: attention from the last position to a name.

    Each is the smaller of two averages, over the sentences whose first name receives and those whose second does: a
    head that always looks at the first name scores as that, not as half a receiver head.
    """
    cases = givings_for(model)
    if not cases:
        return None
    patterns = attention_patterns(model.net, torch.tensor([c.ids for c in cases]))[:, :, :, -1]
    at = torch.arange(len(cases))
    to_receiver = patterns[:, at, :, [c.receiver_at for c in cases]]  # [text, block, head]
    to_giver = patterns[:, at, :, [c.giver_at for c in cases]]
    first_receives = torch.tensor([c.receiver_at < c.giver_at for c in cases])
    return torch.stack(
        [
            torch.minimum(when_first[first_receives].mean(0), when_second[~first_receives].mean(0))
            for when_first, when_second in (
                (to_receiver, to_receiver),
                (to_giver, to_giver),
                (to_receiver, to_giver),  # the first name
                (to_giver, to_receiver),  # the second
            )
        ]
    )


def measure_heads(model: Loaded) -> list[HeadScores]:
    """Scores of every head of a loaded model, block by block. A few forward passes over short texts."""
    kinds = [
        kind
        for scores, n in (
            (_scores_on_sentences(model), 2),
            (_scores_on_repeats(model), 2),
            (_scores_on_givings(model), 4),
        )
        for kind in (scores if scores is not None else [None] * n)
    ]
    return [
        HeadScores(b, h, *(None if kind is None else float(kind[b, h]) for kind in kinds))
        for b in range(model.config.n_layer)
        for h in range(model.config.n_head)
    ]


@torch.no_grad()
def ablate_heads(model: Loaded, heads: Sequence[tuple[int, int]]) -> list[Ablation]:
    """For each (block, head): both names' mean probability with it and without it; [] where that can't be asked."""
    cases = givings_for(model)
    if not cases:
        return []
    tokens = torch.tensor([c.ids for c in cases])
    names = torch.tensor([[c.receiver, c.ids[c.giver_at]] for c in cases])

    def of_names(logits: Tensor) -> tuple[float, float]:
        receiver, giver = logits[:, -1].softmax(-1).gather(1, names).mean(0).tolist()
        return receiver, giver

    whole = of_names(model.net(tokens))
    found = []
    for block, head in heads:
        without = of_names(logits_without(model.net, tokens, block, head))
        found.append(Ablation(block, head, whole[0], without[0], whole[1], without[1]))
    return found


def strongest(scores: Sequence[HeadScores], kind: str, n: int = 1) -> list[HeadScores]:
    """The n heads with the largest score of one kind (a key of KINDS); heads without that score are left out."""
    having = [s for s in scores if getattr(s, kind) is not None]
    return sorted(having, key=lambda s: -getattr(s, kind))[:n]
