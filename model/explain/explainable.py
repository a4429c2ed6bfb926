"""What an explanation asks of a run."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from model.address.trees import Address
from model.arch.graph import Graph
from model.ops.update import Rate
from model.ops.values import Values


class Explainable(Values, Protocol):
    """Values whose graph is known, and the same after learning steps.

    graph        which op makes which site from which
    check        an address with every index checked, those left out filled in; AddressError where one does not fit
    values       the numbers at a checked address as the network has them, slices included
    rate         how learning steps are taken from here
    after        the run after k steps; `with_slopes`, its gradients too
    first_fault  the first site that holds NaN or ±∞
    """

    @property
    def graph(self) -> Graph: ...

    @property
    def rate(self) -> Rate: ...

    def check(self, address: Address) -> Address: ...

    def values(self, at: Address) -> NDArray[Any]: ...

    def after(self, k: int, *, with_slopes: bool = False) -> Explainable: ...

    def first_fault(self) -> str | None: ...
