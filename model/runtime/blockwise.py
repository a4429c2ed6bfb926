"""The network run one part at a time, so that no more than one block's inside is in memory.

The same modules as in a whole pass, called in the same order on the same shapes: the numbers are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from model.address.patch import Patch
from model.arch.network import BackwardPass
from model.runtime.loaded import LoadedModel

Sites = dict[str, Tensor]
Values = Callable[[str], Tensor]


class Blockwise:
    """The parts of one pass over `tokens` with what `patches` set. Each gives its captured sites, by name.

    Tensors have the axes of `model.arch.graph`, without the batch axis, and lie in the processor's memory wherever the
    network does its work. The parts of the backward pass take the gradient of what a part puts out, and read captured
    values by site name.
    """

    def __init__(self, model: LoadedModel, tokens: Sequence[int], patches: Sequence[Patch]) -> None:
        self.changed_weights = model.capture.changed_weights(patches)
        self._capture = model.capture.on(self.changed_weights)
        self._net, self._patches = self._capture.net, patches
        self._device = self._net.W_E.device
        self._tokens = torch.tensor(tokens, device=self._device)

    def enter(self) -> Sites:
        """From the tokens to their embeddings: the stream that enters block 0 is the sum of what is given."""
        return self._sites(lambda: self._net.enter(self._tokens[None]))

    def block(self, n: int, stream: Tensor) -> Sites:
        """Through block `n`, from the stream that enters it (before a change of its `resid_pre`)."""
        return self._sites(lambda: self._net.blocks[n](self._there(stream)[None]))

    def leave(self, stream: Tensor) -> Sites:
        """From the stream that leaves the last block through the final norm to the logits."""
        return self._sites(lambda: self._net.unembed(self._net.ln_final(self._there(stream)[None])))

    def _sites(self, call: Callable[[], Tensor]) -> Sites:
        with torch.no_grad(), self._capture.recording(self._patches) as captured:
            call()
        return {site: output[0].cpu() for site, output in captured.items()}

    # -- the backward pass

    def unembed_back(self, logits: Tensor) -> Tensor:
        """Along the final norm's output, position by position."""
        return (self._there(logits) @ self._net.unembedding).cpu()

    def leave_back(self, out: Tensor, values: Values) -> Sites:
        """Back through the final norm: slopes of its sites, and of the stream that leaves the last block."""
        slopes: Sites = {}
        last = f"blocks.{len(self._net.blocks) - 1}.resid_post"
        with torch.no_grad():
            at = self._backward_pass(values, slopes, "ln_final.")
            slopes[last] = self._net.ln_final.backward(at.values(last), self._there(out), at)
        return {site: slope.cpu() for site, slope in slopes.items()}

    def block_back(self, n: int, out: Tensor, values: Values) -> Sites:
        """Back through block `n`: slopes of its captured sites, but for `qk`."""
        slopes: Sites = {}
        with torch.no_grad():
            self._net.block(n).backward(self._there(out), self._backward_pass(values, slopes, f"blocks.{n}."))
        return {site: slope.cpu() for site, slope in slopes.items()}

    # -- where the network is

    def _there(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device)

    def _backward_pass(self, values: Values, slopes: Sites, module: str) -> BackwardPass:
        return BackwardPass(lambda site: self._there(values(site)), slopes, module)
