"""What the embedded model can do, measured on sentences that its training never saw."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from model.arch.network import Network
from model.embedded.giving import gift
from model.embedded.sentences import agreement, closing, repeated
from model.weights.tokenizer import Tokenizer

DEFAULT = "When Mary and John went to the store, John gave a drink to"


@torch.no_grad()
def probabilities(net: Network, tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """Next-token probabilities [text, d_vocab] after each text; texts of one length run as one batch."""
    ids = [[tokenizer.start_id, *tokenizer.encode(t)] for t in texts]
    found = torch.empty(len(texts), net.config.d_vocab)
    for length in sorted({len(row) for row in ids}):
        same = [i for i, row in enumerate(ids) if len(row) == length]
        found[same] = net(torch.tensor([ids[i] for i in same]))[:, -1].softmax(-1)
    return found


def first_token(tokenizer: Tokenizer, text: str) -> int:
    return tokenizer.encode(text)[0]


def share(right: Iterator[bool]) -> float:
    """The part of answers that are right."""
    answers = list(right)
    return sum(answers) / len(answers)


def receivers(net: Network, tokenizer: Tokenizer, n: int, held_out: bool = True) -> float:
    """Share of giver/receiver sentences whose receiver is the top token."""
    rng = random.Random("receivers")
    gifts = [gift(rng, held_out) for _ in range(n)]
    top = probabilities(net, tokenizer, [g.text for g in gifts]).argmax(-1)
    return share(int(t) == first_token(tokenizer, " " + g.receiver) for g, t in zip(gifts, top, strict=True))


def agreements(net: Network, tokenizer: Tokenizer, n: int) -> float:
    """Share of sentences in which the verb's right form is likelier than its wrong one."""
    rng = random.Random("agreements")
    cases = [agreement(rng, held_out=True, opposite=True) for _ in range(n)]
    p = probabilities(net, tokenizer, [c.text for c in cases])
    right = [first_token(tokenizer, " " + c.right) for c in cases]
    wrong = [first_token(tokenizer, " " + c.wrong) for c in cases]
    return share(bool(row[r] > row[w]) for row, r, w in zip(p, right, wrong, strict=True))


def closings(net: Network, tokenizer: Tokenizer, n: int) -> float:
    """Share of places where a bracket or quote is due and the right closer is the top token."""
    rng = random.Random("closings")
    cases = [closing(rng) for _ in range(n)]
    top = probabilities(net, tokenizer, [c.text for c in cases]).argmax(-1)
    return share(closes(tokenizer.text(int(t)), c.closer) for c, t in zip(cases, top, strict=True))


def closes(token: str | None, closer: str) -> bool:
    """Whether a token writes the closer first: `".` closes as `"` does."""
    return token is not None and token.startswith(closer)


@torch.no_grad()
def repetition(net: Network, tokenizer: Tokenizer, n: int) -> tuple[float, float]:
    """Mean −log p over the first and over the second copy of a random word sequence."""
    rng = random.Random("repetition")
    first, second = [], []
    for _ in range(n):
        ids = [tokenizer.start_id, *tokenizer.encode(" " + " ".join(repeated(rng, 8, 20)))]
        cost = -net(torch.tensor([ids[:-1]]))[0].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
        half = len(cost) // 2
        first.append(cost[:half].mean())
        second.append(cost[half:].mean())
    return float(torch.stack(first).mean()), float(torch.stack(second).mean())


@torch.no_grad()
def loss_per_token(net: Network, rows: list[list[int]]) -> float:
    """Mean −log p per predicted token over rows of any length."""
    total, n = 0.0, 0
    for row in rows:
        total += F.cross_entropy(net(torch.tensor([row[:-1]]))[0], torch.tensor(row[1:]), reduction="sum").item()
        n += len(row) - 1
    return total / n


def glance(net: Network, tokenizer: Tokenizer, n: int = 100) -> str:
    """One line on all skills from small samples: what training prints along the way."""
    p = probabilities(net, tokenizer, [DEFAULT])[0]
    first, second = repetition(net, tokenizer, 20)
    seen = receivers(net, tokenizer, n, held_out=False)
    return (
        f"receiver {receivers(net, tokenizer, n):.2f} (trained names {seen:.2f}),"
        f" Mary {p[first_token(tokenizer, ' Mary')]:.2f}, John {p[first_token(tokenizer, ' John')]:.2f},"
        f" agreement {agreements(net, tokenizer, n):.2f}, closing {closings(net, tokenizer, n):.2f},"
        f" repetition {first:.2f} → {second:.2f}"
    )
