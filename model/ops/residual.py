"""Adding: the residual stream takes a branch's update, place by place."""

from __future__ import annotations

from model.address.trees import Index
from model.ops.base import Group, Place, Ref, Rule, along, grad, subscript
from model.ops.op import Op
from model.ops.values import Values


class Add(Op):
    """out[t,m] = Σ of the same place in each part. With one part it is the same number under its next name."""

    name = "add"

    def __init__(self, out: str, symbol: str, parts: dict[str, str], says: str) -> None:
        """`parts` maps each site read to its LaTeX symbol."""
        self.out, self.symbol, self.parts, self.says = out, symbol, parts, says
        self.reads = tuple(parts)

    def formula(self, run: Values, at: Place) -> str:
        right = " + ".join(subscript(symbol, at) for symbol in self.parts.values())
        return f"{subscript(self.symbol, at)} = {right}"

    def plain(self, run: Values, at: Place) -> str:
        return self.says.format(token=f"{{t{at[0]}}}", m=at[1])

    def forward(self, run: Values, at: Place) -> Rule:
        return Rule("sum", tuple(Group((Ref(site, at),), label=site.rsplit(".", 1)[-1]) for site in self.parts))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        return (Group((grad(self.out, at),)),)

    def slope(self, source: str) -> str:
        return along(self.symbol)

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at]
