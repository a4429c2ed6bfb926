"""Numbers set by the reader: any place of a captured site or of a parameter, and the run that goes on from there.

Written `site[index]=value`, slices included: `blocks.2.attn.z[:,1,:]=0` switches head 1 of block 2 off,
`blocks.0.mlp.post[:,77]=0` a neuron, `blocks.1.mlp_out=0` a whole feed-forward update. One change sets no number:
`additions=off` runs the same weights without the residual additions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from model.address.parser import Address, Index, parse
from model.errors import ReaderError

MOST_CHANGES = 16
NO_ADDITIONS = "additions=off"  # a change of the network, not of a number: blocks hand on f(x) instead of x + f(x)
LARGEST = 1e6
EXAMPLE = "Write it as in blocks.0.attn.z[:,1,:]=0."


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


def parse_patch(text: str) -> Patch:
    """Read `site[index]=value` (or `+=value`). Whether there is such a site and the index fits is a run's business."""
    where, sign, number = text.rpartition("=")
    add = where.endswith("+")
    try:
        value = float(number.replace("−", "-"))
    except ValueError:
        raise PatchError(f"“{text[:80]}” sets no number.", EXAMPLE) from None
    if not sign or not math.isfinite(value) or abs(value) > LARGEST:
        raise PatchError(f"“{text[:80]}”: a number can be set to anything from −{LARGEST:g} to {LARGEST:g}.", EXAMPLE)
    at = parse(where.removesuffix("+"))
    if not isinstance(at, Address) or at.quantity:
        raise PatchError(f"“{where}” is computed from other numbers; set one of those.", EXAMPLE)
    return Patch(at, value, add)
