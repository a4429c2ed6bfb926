"""GPT-2 in plain PyTorch, every intermediate passing through a named hook point; and the backward pass, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.arch.gpt2.config import GPT2Config
from model.arch.network import AttentionBranch, BackwardPass, Block, Branch, HookPoint, Network, Norm, causal

# GELU's 2u = TWICE·(x + CUBE·x³)
TWICE = 2 * math.sqrt(2 / math.pi)
CUBE = 0.044715


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU in its tanh form, 0.5·x·(1 + tanh u) with u = √(2/π)·(x + 0.044715·x³) (Hendrycks & Gimpel 2016).

    Written as x·sigmoid(2u), the same function: 1 + tanh u loses all its digits in float32 for x below about −4,
    and every number here must stand up to being recomputed in float64.
    """
    return gelu_gate(x) * x


def gelu_gate(x: Tensor) -> Tensor:
    """sigmoid(2u): the share of x that GELU lets through."""
    return torch.addcmul(x.new_tensor(TWICE), x, x, value=TWICE * CUBE).mul_(x).sigmoid_()


def gelu_backward(x: Tensor, post: Tensor, slope: Tensor) -> Tensor:
    """slope · (gate + x·gate′) with x·gate′ = post·(1 − gate)·2u′ and post = x·gate."""
    gate = gelu_gate(x)
    turning = torch.addcmul(x.new_tensor(TWICE), x, x, value=3 * TWICE * CUBE)  # 2u′
    turning.mul_(torch.addcmul(post, post, gate, value=-1))
    return turning.add_(gate).mul_(slope)


def relu_backward(x: Tensor, post: Tensor, slope: Tensor) -> Tensor:
    """slope where x > 0, else 0."""
    return slope * (x > 0)


# An activation's name in the config: the function, and (x, post, slope along post) to the slope along x.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "gelu_new": (gelu_tanh, gelu_backward),
    "relu": (F.relu, relu_backward),
}


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x @ weight + bias for a weight stored as [in, out], in one pass."""
    return torch.addmm(bias, x.reshape(-1, x.shape[-1]), weight).view(*x.shape[:-1], -1)


class LayerNorm(Norm):
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

    def backward(self, x: Tensor, out: Tensor, at: BackwardPass) -> Tensor:
        """The slope along x, which reaches the loss through normalized, and through mean and var of its whole row."""
        d = x.shape[-1]
        over = 1 / at["scale"][:, None]
        normalized = at.keep("normalized", at.keep("out", out) * self.w)
        scale = at.keep("scale", -(normalized * at["normalized"]).sum(-1) * over[:, 0])
        var = at.keep("var", scale * over[:, 0] / 2)
        centred = x - at["mean"][:, None]
        mean = at.keep("mean", -normalized.sum(-1) * over[:, 0] - (2 / d) * var * centred.sum(-1))
        spread = centred.mul_((2 / d) * var[:, None]).add_(mean[:, None] / d)
        return spread.addcmul_(normalized, over)


class Attention(AttentionBranch):
    """Causal self-attention. W_QKV is [d_model, 3·d_model] as in the published checkpoints: q, k, v side by side."""

    def __init__(self, c: GPT2Config) -> None:
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
        heads = linear(x, self.W_QKV, self.b_QKV).view(batch, pos, 3, self.c.n_head, self.c.d_head)
        q, k, v = (hook(t) for hook, t in zip((self.q, self.k, self.v), heads.unbind(2), strict=True))
        qk = self.qk(torch.einsum("bqhc,bkhc->bhqk", q, k))
        pattern = self.pattern(self.scores(causal(qk, self.c.d_head)).softmax(-1))
        z = self.z(torch.einsum("bhqk,bkhc->bqhc", pattern, v))
        return linear(z.reshape(batch, pos, d_model), self.W_O, self.b_O)

    def read_on(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        new, d_model = x.shape
        start = keys.shape[1] - new
        q, k, v = (x @ self.W_QKV + self.b_QKV).view(new, 3, self.c.n_head, self.c.d_head).permute(1, 2, 0, 3)
        keys[:, start:], values[:, start:] = k, v
        seen = None if new == 1 else x.new_ones(new, start + new, dtype=torch.bool).tril(start)
        z = F.scaled_dot_product_attention(q[None], keys[None], values[None], attn_mask=seen)[0]
        return z.transpose(0, 1).reshape(new, d_model) @ self.W_O + self.b_O

    def backward(self, out: Tensor, at: BackwardPass) -> Tensor:
        """The slope along what queries, keys and values are made from."""
        pos, d_model = out.shape
        q, k, v, z = (t.transpose(0, 1) for t in (at["q"], at["k"], at["v"], at["z"]))  # [head, pos, d_head]
        pattern, shrink = at["pattern"], 1 / math.sqrt(self.c.d_head)
        slopes = out.new_empty(pos, 3, self.c.n_head, self.c.d_head)
        along_q, along_k, along_v = slopes.permute(1, 2, 0, 3)  # [head, pos, d_head], views of it
        z = at.keep("z", (out @ self.W_O.T).view(pos, self.c.n_head, self.c.d_head)).transpose(0, 1)
        torch.bmm(pattern.transpose(1, 2), z, out=along_v)
        weights = at.keep("pattern", torch.bmm(z, v.transpose(1, 2)))
        scores = at.keep("scores", softmax_backward(pattern, weights))
        torch.bmm(scores, k * shrink, out=along_q)
        torch.bmm(scores.transpose(1, 2), q * shrink, out=along_k)
        for site, slope in zip("qkv", slopes.unbind(1), strict=True):
            at.keep(site, slope)
        return slopes.view(pos, 3 * d_model) @ self.W_QKV.T


def softmax_backward(weights: Tensor, slope: Tensor) -> Tensor:
    """a_k(g_k − Σ_j a_j g_j): the slope along the scores from the slope g along the weights a."""
    return torch._softmax_backward_data(slope, weights, -1, slope.dtype)


class MLP(Branch):
    """Widen, activate, narrow: each position on its own."""

    def __init__(self, c: GPT2Config) -> None:
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(c.d_model, c.d_mlp))
        self.b_in = nn.Parameter(torch.zeros(c.d_mlp))
        self.W_out = nn.Parameter(torch.empty(c.d_mlp, c.d_model))
        self.b_out = nn.Parameter(torch.zeros(c.d_model))
        self.act, self.act_backward = ACTIVATIONS[c.act]
        self.pre, self.post = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        pre = self.pre(linear(x, self.W_in, self.b_in))
        return linear(self.post(self.act(pre)), self.W_out, self.b_out)

    def backward(self, out: Tensor, at: BackwardPass) -> Tensor:
        """The slope along what the neurons read."""
        post = at.keep("post", out @ self.W_out.T)
        return at.keep("pre", self.act_backward(at["pre"], at["post"], post)) @ self.W_in.T


class GPT2Block(Block):
    """A block whose parts are known by their types."""

    ln1: LayerNorm
    ln2: LayerNorm
    attn: Attention
    mlp: MLP

    def __init__(self, c: GPT2Config) -> None:
        ln1, ln2 = (LayerNorm(c.d_model, c.eps) for _ in range(2))
        super().__init__(c.adds, ln1, Attention(c), ln2, MLP(c))


class GPT2(Network):
    """W_E is also the unembedding (tied); a table of positions is added to the embeddings."""

    ln_final: LayerNorm

    def __init__(self, c: GPT2Config) -> None:
        super().__init__(c, [GPT2Block(c) for _ in range(c.n_layer)], LayerNorm(c.d_model, c.eps))
        self.W_pos = nn.Parameter(torch.empty(c.n_ctx, c.d_model))
        self.pos_embed = HookPoint()

    def enter(self, tokens: Tensor, start: int = 0) -> Tensor:
        positions = self.W_pos[start : start + tokens.shape[1]].expand(len(tokens), -1, -1)
        return self.embed(self.W_E[tokens]) + self.pos_embed(positions)

    def backward(self, out: Tensor, at: BackwardPass) -> Tensor:
        return at.keep("pos_embed", super().backward(out, at))

    def init_weights(self, generator: torch.Generator) -> None:
        """GPT-2's start: N(0, 0.02), and what writes into the residual stream scaled by 1/√(2·n_layer)."""
        for name, p in self.named_parameters():
            if name.split(".")[-1].startswith("W_"):
                into_stream = name.endswith(("W_O", "W_out"))
                std = 0.02 / math.sqrt(2 * self.config.n_layer) if into_stream else 0.02
                nn.init.normal_(p, std=std, generator=generator)
