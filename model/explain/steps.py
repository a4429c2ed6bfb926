"""What belongs to the run after k learning steps, as the run that they start from names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from model.address.parser import parse
from model.address.trees import Address, map_addresses
from model.ops.base import Column, Computed, Ref, Rule, map_refs


def later(site: str, quantity: str, k: int) -> str:
    """The quantity of the start's run that is this one of step k's run: token ids never change."""
    if site == "tokens":
        return ""
    return f"grad({k})" if quantity == "grad" else f"step({k})"


def after_steps(address: str, k: int) -> str:
    """An address of step k's run, as the start's run names it: `q[0,0,0]` is `q[0,0,0].step(k)` there."""

    def suffixed(found: Address) -> Address:
        return replace(found, quantity=later(found.site, found.quantity, k))

    return str(map_addresses(parse(address), suffixed))


def rule_after_steps(rule: Rule, k: int) -> Rule:
    """A rule of step k's run with its factors as the start's run names them."""

    def suffixed(ref: Ref) -> Ref:
        return replace(ref, quantity=later(ref.site, ref.quantity, k))

    def column(c: Column) -> Column:
        if isinstance(c, Computed):
            return Computed(_each(c, k), c.value)
        return map_refs(c, suffixed)

    groups = (replace(group, factors=tuple(map(column, group.factors))) for group in rule.groups)
    return replace(rule, groups=tuple(groups))


def _each(column: Computed, k: int) -> Callable[[int], str]:
    return lambda n: after_steps(column.address(n), k)
