"""What an explanation asks of a run, and how that run names what belongs to the one after k learning steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from model.address.parser import parse
from model.address.trees import Address, map_addresses
from model.arch.graph import Graph
from model.ops.base import Column, Computed, Ref, Rule, map_refs
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


def later(site: str, quantity: str, k: int) -> str:
    """The quantity of the start's run that is this one of step k's run: token ids never change."""
    if site == "tokens":
        return ""
    return f"grad({k})" if quantity == "grad" else f"step({k})"


def after_steps(address: str, k: int) -> str:
    """An address of step k's run, as the start's run names it: `q[0,0,0]` is `q[0,0,0].step(k)` there."""

    return str(map_addresses(parse(address), lambda at: replace(at, quantity=later(at.site, at.quantity, k))))


def rule_after_steps(rule: Rule, k: int) -> Rule:
    """A rule of step k's run with its factors as the start's run names them."""

    def suffixed(ref: Ref) -> Ref:
        return replace(ref, quantity=later(ref.site, ref.quantity, k))

    def column(c: Column) -> Column:
        if isinstance(c, Computed):
            return Computed(lambda n: after_steps(c.address(n), k), c.value)
        return map_refs(c, suffixed)

    groups = (replace(group, factors=tuple(map(column, group.factors))) for group in rule.groups)
    return replace(rule, groups=tuple(groups))
