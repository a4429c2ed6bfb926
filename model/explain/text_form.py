"""An explanation as plain text, for a terminal or a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.explain.explanation import Explanation, Factor, Term

HOW = {
    "sum": "the sum of its terms",
    "quotient": "the first term ÷ the sum of the others",
}


def text_form(e: Explanation) -> str:
    """Address and value, how it is made, the listed terms, the rest, and the check against the captured value."""
    lines = [f"{e.address} = {e.value:.7g}", f"  {e.op}: {_how(e)}", *map(_term, e.terms)]
    hidden = e.n_terms - len(e.terms)
    if hidden:
        lines.append(f"  {'':>6}  {e.rest:>14.7g}  the other {hidden:,} term{'s' * (hidden > 1)}")
    lines.append(f"  recomputed {e.total:.10g}, difference {e.difference:.2g} (allowed {e.allowed:.2g})")
    if e.fault:
        lines.append("  FAULT: the recomputed total does not meet the captured value")
    if e.used_by:
        lines.append("  used by " + ", ".join(e.used_by[:6]) + (", …" if len(e.used_by) > 6 else ""))
    return "\n".join(lines + [f"  {note}" for note in e.notes])


def _how(e: Explanation) -> str:
    if e.combine == "function" and e.function is not None:
        return f"{e.function.name} of " + ("its terms" if e.function.name == "max" else "the sum of its terms")
    return HOW.get(e.combine, "not computed: it comes from the text, from training or from you")


def _term(term: Term) -> str:
    return f"  {term.index:>6}  {term.product:>14.7g}  {' · '.join(map(_factor, term.factors))}  {term.label}".rstrip()


def _factor(factor: Factor) -> str:
    return f"{factor.address or factor.constant} ({factor.value:.6g})"
