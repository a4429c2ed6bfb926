"""The way back: ∂loss/∂(every number), captured by one `autograd.grad`, explained by the ops' backward rules.

The gradient at a place is the sum, over everything that reads it, of upstream slope × local derivative (the chain
rule); the graph says who reads it. A parameter's gradient is never stored by PyTorch: it follows on demand from the
captured sites on both sides of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from model.address import Address, Index
from model.errors import AddressError
from model.ops.base import Group, Place, Ref, Rule, along, refs_in
from model.ops.loss import minus_log_p, too_small

if TYPE_CHECKING:
    from model.graph import Node
    from model.run import Run


def site_gradients(run: Run) -> dict[str, Tensor]:
    """∂loss/∂site for every site, float32, axes as in the graph: one forward pass, one back.

    The way back begins at the captured logits, at the positions that the loss reads alone: unembedding the others
    would be a third of the work of a short text, and all their slopes are 0.
    """
    with torch.enable_grad():
        ends = slopes_at_the_end(run, run.scored)
        taped = run.model.capture(run.tokens, run.patches, unembed=False)
        final = torch.zeros_like(taped["ln_final.out"])
        final[0, run.scored.start : run.scored.stop] = ends["logits"] @ run.tensor("W_E")
        found = torch.autograd.grad(taped["ln_final.out"], list(taped.values()), final)
    slopes = {site: slope[0] for site, slope in zip(taped, found, strict=True)}
    for site, slope in ends.items():
        slopes[site] = slope
        if site != "loss":
            slopes[site] = slope.new_zeros(run.shape(site))
            slopes[site][run.scored.start : run.scored.stop] = slope
    return slopes


def slopes_at_the_end(run: Run, scored: range) -> dict[str, Tensor]:
    """The loss's slope along logits, probs, log_probs and each token's loss, at some of the scored positions."""
    logits = run.tensor("logits")[scored.start : scored.stop].detach().requires_grad_()
    probs = logits.softmax(-1)
    places = (torch.arange(len(scored)), torch.tensor([*map(run.next_token, scored)]))
    log_probs = torch.log_softmax(logits, -1) if too_small(probs[places]).any() else None
    each = minus_log_p(probs[places], lambda: log_probs[places])  # type: ignore[index]
    loss = each.sum() / len(run.scored)  # as far as these positions make it
    ends = {"logits": logits, "probs": probs, "loss_per_token": each, "loss": loss}
    if log_probs is not None:
        ends["log_probs"] = log_probs
    slopes = dict(zip(ends, torch.autograd.grad(loss, list(ends.values())), strict=True))
    return {"log_probs": torch.zeros_like(probs)} | slopes


def tape_loss(run: Run, weights: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """All sites up to the loss, computed anew (on other weights if given), batch axis in front; taped if grad is on."""
    taped = run.model.capture(run.tokens, run.patches, weights)
    taped["probs"] = taped["logits"].softmax(-1)
    taped["log_probs"] = taped["probs"].new_zeros(()).expand_as(taped["probs"])
    places = (slice(None), torch.arange(run.n_pos), torch.tensor([*map(run.next_token, range(run.n_pos))]))
    if too_small(taped["probs"][places]).any():
        taped["log_probs"] = torch.log_softmax(taped["logits"], -1)
    taped["loss_per_token"] = minus_log_p(taped["probs"][places], lambda: taped["log_probs"][places])
    taped["loss"] = taped["loss_per_token"][:, run.scored.start : run.scored.stop].mean(-1)
    return taped


def slopes_of(taped: dict[str, Tensor]) -> dict[str, Tensor]:
    """The loss's slope along every taped site, by one `autograd.grad`; 0 where it does not reach."""
    on_tape = {site: value for site, value in taped.items() if value.requires_grad}
    found = torch.autograd.grad(taped["loss"], list(on_tape.values()), allow_unused=True)
    slopes = dict(zip(on_tape, found, strict=True))
    return {site: torch.zeros_like(v[0]) if slopes.get(site) is None else slopes[site][0] for site, v in taped.items()}


def on_demand(run: Run, name: str, index: tuple[Index, ...]) -> Tensor:
    """∂loss/∂name[index] for a parameter, or for a site no tape reaches: the sum over what hands a slope back to it.

    Summed in float64 and rounded once to float32, so that a number is the same whatever part it is asked for with.
    """
    if name == "W_U":
        slopes = on_demand(run, "W_E", index[::-1])
        return slopes.T if slopes.ndim == 2 else slopes
    total: Tensor | None = None
    for node in reversed(run.model.graph.passers(name)):
        part = node.op.gradient(run, name, index)
        total = part if total is None else total.add_(part)
    return torch.zeros_like(run.tensor(name)[index]) if total is None else total.float()


def gradient_rule(run: Run, node: Node, at: Place) -> Rule:
    """The gradient at one place as terms: every reader's upstream slope × local derivative."""
    if node.name == "tokens":
        raise AddressError(
            "A token id has no gradient: it is an address in the vocabulary, not a quantity that can be nudged.",
            f"The row it picks has one: embed[{at[0]},0].grad.",
        )
    if node.name == "loss":
        return Rule("given", notes=("The loss moves one for one with itself: every slope is counted from here.",))
    if node.name == "W_U":
        return Rule("sum", (Group((Ref("W_E", at[::-1], "grad"),), label="the same number"),))
    groups: list[Group] = []
    for passer in run.model.graph.passers(node.name):
        found = passer.op.backward(run, node.name, at)
        via = VIA.get((node.name, passer.name), f"through {passer.short}")
        groups += [replace(g, label=f"{via}: {g.label}" if g.label else via) for g in found]
    return Rule("sum", tuple(groups), notes=() if groups else (_why_none(run, node, at),))


VIA = {("W_E", "embed"): "as embedding", ("W_E", "logits"): "as unembedding"}


def _why_none(run: Run, node: Node, at: Place) -> str:
    if node.short in ("qk", "scores"):
        return "The mask sets this score to −∞ whatever the dot product is, so the loss does not depend on it."
    if node.name == "log_probs":
        return "The loss reads probs; log_probs is a view beside it, so its slope is 0."
    if node.name == "W_pos":
        return f"The text ends at position {run.n_pos - 1}: the loss does not depend on this row."
    return "The loss does not read this number, so its slope is 0."


def gradient_formula(run: Run, node: Node, at: Place) -> str:
    """LaTeX: ∂L/∂(this) as the sum of its readers' backward rules."""
    symbol = node.op.formula(run, at).split(" = ")[0]
    left = along(rf"\left({symbol}\right)" if r"\cdot" in symbol else symbol)
    if node.name == "loss":
        return f"{left} = 1"
    slopes = [passer.op.slope(node.name) for passer in run.model.graph.passers(node.name)]
    return f"{left} = " + (" + ".join(slopes) if slopes else "0")


def passed_back_to(run: Run, node: Node, at: Place) -> tuple[str, ...]:
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
