"""A whole GPT in plain PyTorch: the block, the model, one training step, generation."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention, then a feed-forward network: each reads the normalised row and adds its update."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.join = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.widen, self.narrow = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def attend(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        joined: Tensor = self.join((weights @ v).transpose(1, 2).reshape(n, t, d))
        return joined

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        matches = self.widen(self.norm2(x))
        update: Tensor = self.narrow(torch.relu(matches))
        return x + update


class TinyGPT(nn.Module):
    """Token ids [batch, position] in, logits [batch, position, vocabulary] out."""

    def __init__(self, vocabulary: int, context: int, d: int = 32, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.context = context
        self.tokens, self.positions = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(d)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        h: Tensor = self.norm(self.blocks(x))
        return h @ self.tokens.weight.T


def train_step(model: TinyGPT, optimizer: torch.optim.Optimizer, ids: Tensor) -> float:
    """One correction from every position of `ids` [batch, position] at once; the loss before it."""
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def generate(model: TinyGPT, ids: Tensor, steps: int, temperature: float = 1.0) -> Tensor:
    """`ids` [batch, position] with `steps` more tokens, each drawn from the model's odds."""
    for _ in range(steps):
        logits = model(ids[:, -model.context :])[:, -1]
        odds = (logits / temperature).softmax(-1)
        ids = torch.cat([ids, torch.multinomial(odds, 1)], 1)
    return ids
