"""A network of the Llama family in plain PyTorch, its forward pass alone. Weights are [out, in], as published."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.arch.llama.config import LlamaConfig
from model.arch.network import AttentionBranch, Block, Branch, HookPoint, Network, Norm, causal
from model.ops.rotary import angles


class RMSNorm(Norm):
    """x / √(mean of x² + ε) · w over the last axis."""

    def __init__(self, d: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.w = nn.Parameter(torch.ones(d))
        self.ms, self.scale, self.normalized, self.out = HookPoint(), HookPoint(), HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        ms = self.ms((x * x).mean(-1))
        scale = self.scale((ms + self.eps).sqrt())
        return self.out(self.normalized(x / scale[..., None]) * self.w)


def rotated(x: Tensor, theta: float) -> Tensor:
    """Rows [batch, pos, head, d_head] turned by their positions: entry i with entry i + d_head/2, as one pair."""
    turn = angles(x.shape[1], x.shape[-1], theta).to(x.device)[:, None]
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x * turn.cos().to(x.dtype) + turned * turn.sin().to(x.dtype)


class Attention(AttentionBranch):
    """Causal self-attention with rotary positions; several query heads read one head's keys and values."""

    def __init__(self, c: LlamaConfig) -> None:
        super().__init__()
        self.c = c
        self.W_Q = nn.Parameter(torch.empty(c.n_head * c.d_head, c.d_model))
        self.W_K = nn.Parameter(torch.empty(c.n_kv_head * c.d_head, c.d_model))
        self.W_V = nn.Parameter(torch.empty(c.n_kv_head * c.d_head, c.d_model))
        self.W_O = nn.Parameter(torch.empty(c.d_model, c.n_head * c.d_head))
        self.q, self.k, self.v, self.rot_q, self.rot_k = (HookPoint() for _ in range(5))
        self.qk, self.scores, self.pattern, self.z = (HookPoint() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        c, rows = self.c, x.shape[:2]
        q = self.q(F.linear(x, self.W_Q).view(*rows, c.n_head, c.d_head))
        k = self.k(F.linear(x, self.W_K).view(*rows, c.n_kv_head, c.d_head))
        v = self.v(F.linear(x, self.W_V).view(*rows, c.n_kv_head, c.d_head))
        q, k = self.rot_q(rotated(q, c.theta)), self.rot_k(rotated(k, c.theta))
        k, v = (t.repeat_interleave(c.n_head // c.n_kv_head, dim=2) for t in (k, v))
        qk = self.qk(torch.einsum("bqhc,bkhc->bhqk", q, k))
        pattern = self.pattern(self.scores(causal(qk, c.d_head)).softmax(-1))
        z = self.z(torch.einsum("bhqk,bkhc->bqhc", pattern, v))
        return F.linear(z.flatten(2), self.W_O)


class MLP(Branch):
    """silu(gate) · up, then narrowed: each position on its own."""

    def __init__(self, c: LlamaConfig) -> None:
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(c.d_mlp, c.d_model))
        self.W_in = nn.Parameter(torch.empty(c.d_mlp, c.d_model))
        self.W_out = nn.Parameter(torch.empty(c.d_model, c.d_mlp))
        self.pre, self.pre_linear, self.post = HookPoint(), HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.pre(F.linear(x, self.W_gate)), self.pre_linear(F.linear(x, self.W_in))
        return F.linear(self.post(F.silu(gate) * up), self.W_out)


def _block(c: LlamaConfig) -> Block:
    ln1, ln2 = (RMSNorm(c.d_model, c.eps) for _ in range(2))
    return Block(c.adds, ln1, Attention(c), ln2, MLP(c))


class Llama(Network):
    """Nothing is added to the embeddings: positions come in where queries and keys are turned."""

    def __init__(self, c: LlamaConfig) -> None:
        super().__init__(c, [_block(c) for _ in range(c.n_layer)], RMSNorm(c.d_model, c.eps))
        if not c.tied:
            self.W_U = nn.Parameter(torch.empty(c.d_vocab, c.d_model))

    @property
    def unembedding(self) -> Tensor:
        return self.W_E if self.config.tied else self.W_U  # type: ignore[attr-defined]
