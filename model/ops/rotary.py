"""Rotary positions (Su et al. 2021): queries and keys are turned by angles that grow with the position.

Entry i of a head and entry i + d_head/2 are one pair, turned as a point in the plane by t·θ^(−2i/d_head) at position t.
The product of a turned query and a turned key then depends on how far apart they stand, not on where.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from model.address.trees import Index
from model.ops.base import Constant, Group, Place, Ref, Rule, along, grad, subscript
from model.ops.op import Op
from model.ops.values import Values


def angles(n_pos: int, d_head: int, theta: float) -> Tensor:
    """[n_pos, d_head] in radians, float64: both entries of a pair have the same."""
    pairs = theta ** (-2 * torch.arange(d_head // 2, dtype=torch.float64) / d_head)
    return torch.outer(torch.arange(n_pos, dtype=torch.float64), pairs).repeat(1, 2)


class Rotate(Op):
    """out[t,h,c] = x[t,h,c]·cos − x[t,h,partner]·sin in the first half of a head, + in the second."""

    name = "rotate"

    def __init__(self, out: str, x: str, symbol: str, theta: float) -> None:
        self.out, self.x, self.symbol, self.theta = out, x, symbol, theta
        self.reads = (x,)
        turned = along(rf"\mathrm{{rot}}\,{symbol}")
        self.backward_latex = rf"{turned}\,\cos + {turned}'\,(\pm\sin)"

    def _turn(self, run: Values, at: Place) -> tuple[Place, Constant, Constant]:
        """The partner's place, and what this entry and its partner are multiplied with."""
        t, h, c = at
        d = run.size("d_head")
        half, pair = d // 2, c % (d // 2)
        angle, name = t * self.theta ** (-2 * pair / d), rf"({t}\,\theta_{{{pair}}})"
        if c < half:
            return (
                (t, h, c + half),
                Constant(rf"\cos{name}", math.cos(angle)),
                Constant(rf"-\sin{name}", -math.sin(angle)),
            )
        return (t, h, c - half), Constant(rf"\cos{name}", math.cos(angle)), Constant(rf"\sin{name}", math.sin(angle))

    def formula(self, run: Values, at: Place) -> str:
        partner, cos, sin = self._turn(run, at)
        sign = "" if sin.name.startswith("-") else "+ "
        left = rf"\mathrm{{rot}}\,{subscript(self.symbol, at)}"
        return f"{left} = {subscript(self.symbol, at)}{cos.name} {sign}{sin.name}{subscript(self.symbol, partner)}"

    def plain(self, run: Values, at: Place) -> str:
        partner, _, _ = self._turn(run, at)
        d, pair = run.size("d_head"), at[2] % (run.size("d_head") // 2)
        turn = self.theta ** (-2 * pair / d)
        return (
            f"Entries {at[2]} and {partner[2]} are turned as one point in the plane, "
            f"by {turn:.4g} a position: {{t{at[0]}}} stands at position {at[0]}."
        )

    def forward(self, run: Values, at: Place) -> Rule:
        partner, cos, sin = self._turn(run, at)
        own = Group((Ref(self.x, at), cos), label="this entry")
        return Rule("sum", (own, Group((Ref(self.x, partner), sin), label="its partner")))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        partner, cos, _ = self._turn(run, at)
        _, _, sin = self._turn(run, partner)
        own = Group((grad(self.out, at), cos), label="into this entry")
        return (own, Group((grad(self.out, partner), sin), label="into its partner"))

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        partner, _, _ = self._turn(run, at)
        return [at, partner]
