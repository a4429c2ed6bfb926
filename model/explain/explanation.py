"""An explanation: how one number is made, beside what PyTorch captured; and the same as plain text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from model.explain.terms import Factor, Order, Subtotal, Term, Window
from model.ops.base import Combine, Floats, Function, Step

Kind = Literal["site", "set", "gradient", "update", "average", "arithmetic"]


@dataclass(frozen=True)
class Explanation:
    """How one number is made.

    kind        by a site's op, by the reader, by backward, by a learning step (a weight, an average) or by arithmetic
    value       what PyTorch captured (float32); of a `calc(…)`, its value in float64
    total       recomputed in float64 from all terms: see `combine` in `model.ops.base.Rule`
    difference  total − value; `allowed` is the largest that counts as agreeing, `fault` says it is exceeded
    terms       those in the window; `rest` is the sum of the products that are not
    products    every term's product in index order
    formula     LaTeX; `plain` a sentence in which {t3} is the token at position 3 and {v17} vocabulary entry 17
    """

    address: str
    site: str
    op: str
    value: float
    formula: str
    plain: str
    combine: Combine
    function: Function | None
    terms: tuple[Term, ...]
    n_terms: int
    window: Window
    rest: float
    total: float
    difference: float
    allowed: float
    products: Floats = field(repr=False, compare=False)
    subtotals: tuple[Subtotal, ...] = ()
    steps: tuple[Step, ...] = ()
    used_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    kind: Kind = "site"

    @property
    def is_p_minus_y(self) -> bool:
        """Whether this is the slope along a logit, for which the whole chain back has a short form."""
        return self.kind == "gradient" and self.site == "logits"

    @property
    def offset(self) -> int:
        return self.window.offset

    @property
    def order(self) -> Order:
        return self.window.order

    @property
    def fault(self) -> bool:
        """True where the recomputed total does not meet the captured value; NaN never does."""
        return not abs(self.difference) <= self.allowed

    def __str__(self) -> str:
        """For a terminal: how it is made, the listed terms, the rest, and the check against the captured value."""
        lines = [f"{self.address} = {self.value:.7g}", f"  {self.op}: {self._how()}", *map(_term, self.terms)]
        if hidden := self.n_terms - len(self.terms):
            lines.append(f"  {'':>6}  {self.rest:>14.7g}  the other {hidden:,} term{'s' * (hidden > 1)}")
        lines.append(f"  recomputed {self.total:.10g}, difference {self.difference:.2g} (allowed {self.allowed:.2g})")
        if self.fault:
            lines.append("  FAULT: the recomputed total does not meet the captured value")
        if self.used_by:
            lines.append("  used by " + ", ".join(self.used_by[:6]) + (", …" if len(self.used_by) > 6 else ""))
        return "\n".join(lines + [f"  {note}" for note in self.notes])

    def _how(self) -> str:
        if self.function is not None:
            return f"{self.function.name} of " + ("its terms" if self.function.of_terms else "the sum of its terms")
        how = {"sum": "the sum of its terms", "quotient": "the first term ÷ the sum of the others"}
        return how.get(self.combine, "not computed: it comes from the text, from training or from you")


def _term(term: Term) -> str:
    return f"  {term.index:>6}  {term.product:>14.7g}  {' · '.join(map(_factor, term.factors))}  {term.label}".rstrip()


def _factor(factor: Factor) -> str:
    return f"{factor.address or factor.constant} ({factor.value:.6g})"
