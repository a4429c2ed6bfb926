"""The KV cache: keys and values of the positions already read, kept, so that a new token costs one row of work.

A position's key and value depend on the tokens up to it and on nothing after it (the mask sees to that), so reading
on never changes them. What the cache computes is the network's own forward for the new rows only: the same
parameters, the same LayerNorm and MLP modules, and softmax(q·kᵀ/√d_head)·v over the stored keys and values (in
PyTorch's fused form). The two ways' logits differ in the last digits, because products of matrices of other shapes
add in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from model.arch.gpt2.network import GPT2, Attention, Block


@dataclass(frozen=True)
class Rows:
    """What one pass computed: keys and values of `reused` positions were kept, those of `new` ones are new."""

    reused: int
    new: int

    @property
    def pairs(self) -> int:
        """Query-key dot products of one head: each new query meets every key up to its own. One new row: t."""
        return pairs_without_cache(self.reused + self.new) - pairs_without_cache(self.reused)

    @property
    def pairs_without(self) -> int:
        """The same without a cache: t(t+1)/2."""
        return pairs_without_cache(self.reused + self.new)


def pairs_without_cache(t: int) -> int:
    """1 + 2 + … + t: of t positions, each looks at itself and all before it."""
    return t * (t + 1) // 2


class KVCache:
    """`keys` and `values` [layer, head, pos, d_head] with room for the whole context, filled up to `length`."""

    def __init__(self, net: GPT2) -> None:
        c = net.config
        self.net, self.length = net, 0
        self.keys = net.W_E.new_empty(c.n_layer, c.n_head, c.n_ctx, c.d_head)
        self.values = torch.empty_like(self.keys)

    def append(self, tokens: Sequence[int]) -> Tensor:
        """Read these tokens after those read before; logits [d_vocab] of the last one."""
        start, stop = self.length, self.length + len(tokens)
        if stop > self.net.config.n_ctx:
            raise ValueError(f"{stop} tokens do not fit a context of {self.net.config.n_ctx}")
        with torch.inference_mode():
            x = self.net.W_E[torch.tensor(tokens, device=self.keys.device)] + self.net.W_pos[start:stop]
            for layer, block in enumerate(blocks_of(self.net)):
                x = x + self._attend(block.attn, layer, block.ln1(x), start)
                x = x + block.mlp(block.ln2(x))
            logits: Tensor = self.net.ln_final(x[-1]) @ self.net.W_E.T
        self.length = stop
        return logits.cpu()

    def _attend(self, attn: Attention, layer: int, x: Tensor, start: int) -> Tensor:
        """Attention of the new rows [new, d_model], at positions from `start` on, over every row up to their own."""
        new, d_model = x.shape
        q, k, v = (x @ attn.W_QKV + attn.b_QKV).view(new, 3, attn.c.n_head, attn.c.d_head).permute(1, 2, 0, 3)
        keys, values = self.keys[layer, :, : start + new], self.values[layer, :, : start + new]
        keys[:, start:], values[:, start:] = k, v
        sees_all = new == 1
        seen = None if sees_all else x.new_ones(new, start + new, dtype=torch.bool).tril(start)
        z = F.scaled_dot_product_attention(q[None], keys[None], values[None], attn_mask=seen)[0]
        return z.transpose(0, 1).reshape(new, d_model) @ attn.W_O + attn.b_O


def logits_without_cache(net: GPT2, tokens: Sequence[int]) -> Tensor:
    """Logits [d_vocab] of the last token, every row computed afresh by the network's own blocks."""
    with torch.inference_mode():
        x = net.W_E[torch.tensor([tokens], device=net.W_E.device)] + net.W_pos[: len(tokens)]
        for block in blocks_of(net):
            x = block(x)
        logits: Tensor = net.ln_final(x[0, -1]) @ net.W_E.T
    return logits.cpu()


def blocks_of(net: GPT2) -> list[Block]:
    """The blocks, by their type."""
    return cast("list[Block]", list(net.blocks))
