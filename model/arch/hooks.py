"""Where a network lets its intermediate values be seen, and what its backward pass reads and keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor, nn


class HookPoint(nn.Module):
    """Passes its input on; a place to hang a forward hook."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...


class BackwardPass:
    """One run's backward pass through a module: captured values in, slopes out, under the module's own names.

    `values` finds a captured site by its full name, without the batch axis; `slopes` collects ∂loss/∂site likewise.
    """

    def __init__(self, values: Callable[[str], Tensor], slopes: dict[str, Tensor], module: str = "") -> None:
        self.values, self.slopes, self.module = values, slopes, module

    def into(self, module: str) -> BackwardPass:
        return BackwardPass(self.values, self.slopes, f"{self.module}{module}.")

    def __getitem__(self, site: str) -> Tensor:
        return self.values(self.module + site)

    def keep(self, site: str, slope: Tensor) -> Tensor:
        self.slopes[self.module + site] = slope
        return slope
