"""The KV cache: keys and values of the positions already read, kept, so that a new token costs one row of work.

A position's key and value depend on the tokens up to it and on nothing after it (the mask sees to that), so reading
on never changes them. What the cache computes is the network's own forward for the new rows only, with attention's
softmax(q·kᵀ/√d_head)·v over the stored keys and values in PyTorch's fused form. The two ways' logits differ in the last
digits, because products of matrices of other shapes add in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.arch.network import Network


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

    def __init__(self, net: Network) -> None:
        c = net.config
        self.net, self.length = net, 0
        self.keys = net.W_E.new_empty(c.n_layer, c.n_kv_head, c.n_ctx, c.d_head)
        self.values = torch.empty_like(self.keys)

    def append(self, tokens: Sequence[int]) -> Tensor:
        """Read these tokens after those read before; logits [d_vocab] of the last one."""
        start, stop = self.length, self.length + len(tokens)
        if stop > self.net.config.n_ctx:
            raise ValueError(f"{stop} tokens do not fit a context of {self.net.config.n_ctx}")
        with torch.inference_mode():
            x = self.net.enter(torch.tensor([tokens], device=self.keys.device), start)[0]
            for block, keys, values in zip(self.net.blocks, self.keys, self.values, strict=True):
                x = block(x, (keys[:, :stop], values[:, :stop]))
            logits: Tensor = self.net.ln_final(x[-1]) @ self.net.unembedding.T
        self.length = stop
        return logits.cpu()


def logits_without_cache(net: Network, tokens: Sequence[int]) -> Tensor:
    """Logits [d_vocab] of the last token, every row computed afresh by the network's own blocks."""
    with torch.inference_mode():
        x = net.stream(torch.tensor([tokens], device=net.W_E.device))
        logits: Tensor = net.ln_final(x[0, -1]) @ net.unembedding.T
    return logits.cpu()
