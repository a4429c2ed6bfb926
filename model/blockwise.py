"""The network run one block at a time, so that no more than one block's inside is in memory.

The same modules as in a whole pass, called in the same order on the same shapes: the numbers are the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call

from model.patch import Patch

if TYPE_CHECKING:
    from model.language_model import LanguageModel

Captured = dict[str, Tensor]


class Blockwise:
    """The parts of one pass over `tokens` with what `patches` set. Each part gives its hook points' outputs by site.

    Tensors have a batch axis in front, as in `model.capture`. Where grad is enabled, a part's tape begins at what
    enters it.
    """

    def __init__(self, model: LanguageModel, tokens: Sequence[int], patches: Sequence[Patch]) -> None:
        self._net, self._capture = model.net, model.capture
        self._tokens, self._patches = torch.tensor([list(tokens)]), patches
        self.changed_weights = self._capture.changed_weights(patches)

    def enter(self) -> Captured:
        """From the tokens to the stream that enters block 0: the sum of what is given."""
        positions = self._weight("W_pos")[: self._tokens.shape[1]]
        with self._capture.recording(self._patches) as captured:
            self._net.embed(self._weight("W_E")[self._tokens])
            self._net.pos_embed(positions.expand(1, -1, -1))
        return captured

    def block(self, n: int, stream: Tensor) -> Captured:
        """Through block `n`, from the stream that enters it (before a change of its `resid_pre`)."""
        return self._through(f"blocks.{n}", stream)

    def leave(self, stream: Tensor) -> Captured:
        """Through the final norm, from the stream that leaves the last block."""
        return self._through("ln_final", stream)

    def unembed(self, out: Tensor) -> Captured:
        """From the final norm's output to the logits."""
        with self._capture.recording(self._patches) as captured:
            self._net.logits(out @ self._weight("W_E").T)
        return captured

    def _through(self, part: str, stream: Tensor) -> Captured:
        module: nn.Module = self._net.get_submodule(part)
        own = {
            name.removeprefix(f"{part}."): w for name, w in self.changed_weights.items() if name.startswith(f"{part}.")
        }
        with self._capture.recording(self._patches) as captured:
            functional_call(module, own, (stream,))
        return captured

    def _weight(self, name: str) -> Tensor:
        return self.changed_weights.get(name, self._net.get_parameter(name))
