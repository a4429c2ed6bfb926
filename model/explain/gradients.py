"""A gradient as terms: the sum, over everything that reads the number, of upstream gradient × local derivative.

That is the chain rule; the graph says who reads it, and each reader's op what its derivative is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from model.address.trees import Address
from model.arch.base import Node
from model.errors import AddressError
from model.explain.explainable import Explainable
from model.ops.base import Group, Place, Rule, along, refs_in


def gradient_rule(run: Explainable, node: Node, at: Place) -> Rule:
    """The gradient at one place as terms: every reader's upstream slope × local derivative."""
    if node.name == "tokens":
        raise AddressError(
            "A token id has no gradient: it is an address in the vocabulary, not a quantity that can be nudged.",
            f"The row it picks has one: embed[{at[0]},0].grad.",
        )
    if node.name == "loss":
        return Rule("given", notes=("The loss moves one for one with itself: every slope is counted from here.",))
    groups: list[Group] = []
    for consumer, op in run.graph.gradient_rules(node.name):
        found = op.backward(run, node.name, at)
        via = run.graph.use(node, consumer) or f"through {consumer.short}"
        groups += [replace(g, label=f"{via}: {g.label}" if g.label else via) for g in found]
    return Rule("sum", tuple(groups), notes=() if groups else (_why_none(run, node, at),))


def _why_none(run: Explainable, node: Node, at: Place) -> str:
    if node.short in ("qk", "scores"):
        return "The mask sets this score to −∞ whatever the dot product is, so the loss does not depend on it."
    if node.name == "log_probs":
        return "The loss reads probs; log_probs is a view beside it, so its slope is 0."
    if "n_ctx" in node.axes:
        return f"The text ends at position {run.n_pos - 1}: the loss does not depend on this row."
    return "The loss does not read this number, so its slope is 0."


def gradient_formula(run: Explainable, node: Node, at: Place) -> str:
    """LaTeX: ∂L/∂(this) as the sum of its readers' backward rules."""
    symbol = node.op.formula(run, at).split(" = ")[0]
    left = along(rf"\left({symbol}\right)" if r"\cdot" in symbol else symbol)
    if node.name == "loss":
        return f"{left} = 1"
    slopes = [op.slope(node.name) for _, op in run.graph.gradient_rules(node.name)]
    return f"{left} = " + (" + ".join(slopes) if slopes else "0")


def passed_back_to(run: Explainable, node: Node, at: Place) -> tuple[str, ...]:
    """Addresses (with slices) of the gradients that this one is a factor of: those of what the number was made from."""
    if node.is_parameter or node.name == "tokens":
        return ()
    found: dict[str, None] = {}
    for group in node.op.forward(run, at).groups:
        for ref in (ref for column in group.factors for ref in refs_in(column)):
            if ref.site in node.op.grad_reads:
                place = tuple(i if np.ndim(i) == 0 else slice(None, None) for i in ref.index)
                found[str(Address(ref.site, place, "grad"))] = None  # type: ignore[arg-type]
    return tuple(found)
