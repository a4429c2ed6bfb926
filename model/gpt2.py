"""GPT-2 in plain PyTorch, every intermediate passing through a named hook point.

The modules are named so that a hook point's path is its site name: `blocks.0.attn.q`, `ln_final.scale`, … A hook
on such a point sees that site of a run, with a batch axis in front of the axes that `model.graph` gives.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.config import Config


class HookPoint(nn.Module):
    """Passes its input on; a place to hang a forward hook."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU in its tanh form, 0.5·x·(1 + tanh u) with u = √(2/π)·(x + 0.044715·x³) (Hendrycks & Gimpel 2016).

    Written as x·sigmoid(2u), the same function: 1 + tanh u loses all its digits in float32 for x below about −4,
    and every number here must stand up to being recomputed in float64.
    """
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


class LayerNorm(nn.Module):
    """(x − mean) / √(var + ε) · w + b over the last axis; var is the mean squared deviation (÷ d, not d − 1)."""

    def __init__(self, d: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.w = nn.Parameter(torch.ones(d))
        self.b = nn.Parameter(torch.zeros(d))
        self.mean, self.var, self.scale = HookPoint(), HookPoint(), HookPoint()
        self.normalized, self.out = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        mean = self.mean(x.mean(-1))
        centred = x - mean[..., None]
        var = self.var((centred * centred).mean(-1))
        scale = self.scale((var + self.eps).sqrt())
        normalized = self.normalized(centred / scale[..., None])
        return self.out(torch.addcmul(self.b, normalized, self.w))


class Attention(nn.Module):
    """Causal self-attention. W_QKV is [d_model, 3·d_model] as in the published checkpoints: q, k, v side by side."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.W_QKV = nn.Parameter(torch.empty(c.d_model, 3 * c.d_model))
        self.b_QKV = nn.Parameter(torch.zeros(3 * c.d_model))
        self.W_O = nn.Parameter(torch.empty(c.d_model, c.d_model))
        self.b_O = nn.Parameter(torch.zeros(c.d_model))
        self.q, self.k, self.v = HookPoint(), HookPoint(), HookPoint()
        self.qk, self.scores, self.pattern, self.z = HookPoint(), HookPoint(), HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        batch, pos, d_model = x.shape
        heads = (x @ self.W_QKV + self.b_QKV).view(batch, pos, 3, self.c.n_head, self.c.d_head)
        q, k, v = (hook(t) for hook, t in zip((self.q, self.k, self.v), heads.unbind(2), strict=True))
        qk = self.qk(torch.einsum("bqhc,bkhc->bhqk", q, k))
        future = torch.ones(pos, pos, dtype=torch.bool, device=x.device).triu(1)
        scores = self.scores((qk / math.sqrt(self.c.d_head)).masked_fill(future, -math.inf))
        pattern = self.pattern(scores.softmax(-1))
        z = self.z(torch.einsum("bhqk,bkhc->bqhc", pattern, v))
        return z.reshape(batch, pos, d_model) @ self.W_O + self.b_O


class MLP(nn.Module):
    """Widen, bend, narrow: each position on its own."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(c.d_model, c.d_mlp))
        self.b_in = nn.Parameter(torch.zeros(c.d_mlp))
        self.W_out = nn.Parameter(torch.empty(c.d_mlp, c.d_model))
        self.b_out = nn.Parameter(torch.zeros(c.d_model))
        self.bend = gelu_tanh if c.act == "gelu_new" else F.relu
        self.pre, self.post = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        pre = self.pre(x @ self.W_in + self.b_in)
        return self.post(self.bend(pre)) @ self.W_out + self.b_out


class Block(nn.Module):
    """x + attention(norm(x)), then the same with the feed-forward network."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.ln1, self.attn = LayerNorm(c.d_model, c.eps), Attention(c)
        self.ln2, self.mlp = LayerNorm(c.d_model, c.eps), MLP(c)
        self.resid_pre, self.attn_out, self.resid_mid = HookPoint(), HookPoint(), HookPoint()
        self.mlp_out, self.resid_post = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        x = self.resid_pre(x)
        x = self.resid_mid(x + self.attn_out(self.attn(self.ln1(x))))
        return self.resid_post(x + self.mlp_out(self.mlp(self.ln2(x))))


class GPT2(nn.Module):
    """Token ids [batch, pos] in, logits [batch, pos, d_vocab] out. W_E is also the unembedding (tied)."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.config = c
        self.W_E = nn.Parameter(torch.empty(c.d_vocab, c.d_model))
        self.W_pos = nn.Parameter(torch.empty(c.n_ctx, c.d_model))
        self.embed, self.pos_embed = HookPoint(), HookPoint()
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.n_layer))
        self.ln_final = LayerNorm(c.d_model, c.eps)
        self.logits = HookPoint()

    def forward(self, tokens: Tensor, unembed: bool = True) -> Tensor:
        """`unembed=False` stops at the final norm, whose output it returns."""
        x = self.embed(self.W_E[tokens]) + self.pos_embed(self.W_pos[: tokens.shape[1]].expand(len(tokens), -1, -1))
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.ln_final(x)
        return self.logits(out @ self.W_E.T) if unembed else out

    def init_weights(self, generator: torch.Generator) -> None:
        """GPT-2's start: N(0, 0.02), and what writes into the residual stream scaled by 1/√(2·n_layer)."""
        for name, p in self.named_parameters():
            if name.split(".")[-1].startswith("W_"):
                into_stream = name.endswith(("W_O", "W_out"))
                std = 0.02 / math.sqrt(2 * self.config.n_layer) if into_stream else 0.02
                nn.init.normal_(p, std=std, generator=generator)
