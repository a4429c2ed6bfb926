"""The forward pass of `model.arch.gpt2.network.GPT2` with PyTorch's fused kernels, for training only.

It reads the parameters of the very network and computes the same function (a test compares the logits). It has no
hook points, and in exchange a training step takes about half the time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from model.arch.gpt2.network import GPT2, Attention, GPT2Block, LayerNorm


def norm(ln: LayerNorm, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], ln.w, ln.b, ln.eps)


def attention(attn: Attention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Causal attention [batch, pos, d_model] → the same shape, and the pattern [batch, head, query, key]."""
    batch, pos, d_model = x.shape
    qkv = F.linear(x, attn.W_QKV.T, attn.b_QKV).view(batch, pos, 3, attn.c.n_head, attn.c.d_head)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    scores = (q / math.sqrt(attn.c.d_head)) @ k.transpose(-1, -2)  # on CPUs faster than the fused attention's backward
    future = torch.ones(pos, pos, dtype=torch.bool, device=x.device).triu(1)
    pattern = scores.masked_fill(future, -math.inf).softmax(-1)
    z = pattern.to(v.dtype) @ v
    return F.linear(z.transpose(1, 2).reshape(batch, pos, d_model), attn.W_O.T, attn.b_O), pattern


def feed_forward(block: GPT2Block, x: Tensor) -> Tensor:
    bent = F.gelu(F.linear(x, block.mlp.W_in.T, block.mlp.b_in), approximate="tanh")
    return F.linear(bent, block.mlp.W_out.T, block.mlp.b_out)


def fused_logits(net: GPT2, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Token ids [batch, pos] → logits [batch, pos, d_vocab], as `net(tokens)`, and each block's pattern."""
    x, patterns = F.embedding(tokens, net.W_E) + net.W_pos[: tokens.shape[1]], []
    for block in net.blocks:
        assert isinstance(block, GPT2Block)
        out, pattern = attention(block.attn, norm(block.ln1, x))
        patterns.append(pattern)
        x = x + out
        x = x + feed_forward(block, norm(block.ln2, x))
    return F.linear(norm(net.ln_final, x), net.W_E), patterns
