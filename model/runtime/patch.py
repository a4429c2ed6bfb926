"""Numbers set by the reader: any place of a captured site or of a parameter, and the run that goes on from there.

Written `site[index]=value`, slices included: `blocks.2.attn.z[:,1,:]=0` switches head 1 of block 2 off,
`blocks.0.mlp.post[:,77]=0` a neuron, `blocks.1.mlp_out=0` a whole feed-forward update. One change sets no number:
`additions=off` runs the same weights without the residual additions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from model.address.parser import Address, Index, parse
from model.errors import ReaderError

if TYPE_CHECKING:
    from model.runtime.language_model import LanguageModel

MOST_CHANGES = 16
NO_ADDITIONS = "additions=off"  # a change of the network, not of a number: blocks hand on f(x) instead of x + f(x)
LARGEST = 1e6


class PatchError(ReaderError):
    """A change that cannot be made."""

    code, part = "bad_change", "set"


@dataclass(frozen=True)
class Patch:
    """Set `at` (or with `add`, move it by) to `value`."""

    at: Address
    value: float
    add: bool = False

    def __str__(self) -> str:
        return f"{self.at}{'+' if self.add else ''}={self.value:.17g}"

    def applied(self, tensor: Tensor) -> Tensor:
        """A copy of the tensor (axes as in the graph) with the change made."""
        changed = tensor.clone()
        if self.add:
            changed[self.at.index] += self.value
        else:
            changed[self.at.index] = self.value
        return changed

    def covers(self, place: tuple[int, ...]) -> bool:
        """True where `place` is one of the numbers set."""
        return all(_within(i, p) for i, p in zip(self.at.index, place, strict=False))


def _within(i: Index, place: int) -> bool:
    if isinstance(i, int):
        return i == place
    return (i.start or 0) <= place and (i.stop is None or place < i.stop)


def parse_patch(model: LanguageModel, text: str) -> Patch:
    """Read `site[index]=value` (or `+=value`). Whether the index fits is checked against the run."""
    where, sign, number = text.rpartition("=")
    example = "Write it as in blocks.0.attn.z[:,1,:]=0."
    add = where.endswith("+")
    try:
        value = float(number.replace("−", "-"))
    except ValueError:
        raise PatchError(f"“{text[:80]}” sets no number.", example) from None
    if not sign or not math.isfinite(value) or abs(value) > LARGEST:
        raise PatchError(f"“{text[:80]}”: a number can be set to anything from −{LARGEST:g} to {LARGEST:g}.", example)
    at = parse(where.removesuffix("+"))
    if not isinstance(at, Address) or at.quantity:
        raise PatchError(f"“{where}” is computed from other numbers; set one of those.", example)
    node = model.graph[at.site]
    if not node.is_parameter and at.site not in model.hooked:
        raise PatchError(f"{at.site} is derived from other sites and cannot be set itself.", example)
    if at.site == "W_U":
        raise PatchError("W_U is another name for W_E; set that.", "W_U[i,v] is W_E[v,i].")
    return Patch(at, value, add)
