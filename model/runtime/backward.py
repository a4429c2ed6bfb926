"""The way back: ∂loss/∂(every number), found by one pass back, explained by the ops' backward rules.

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

from model.address.parser import Address, Index
from model.arch.network import BackwardPass, Network
from model.errors import AddressError
from model.ops.base import Group, Place, Ref, Rule, along, refs_in
from model.ops.loss import minus_log_p, too_small

if TYPE_CHECKING:
    from model.arch.base import Node
    from model.runtime.capture import Capture
    from model.runtime.run import Run


@torch.no_grad()
def site_gradients(run: Run, net: Network | None = None) -> dict[str, Tensor]:
    """∂loss/∂site for every captured site but `qk`, float32, axes as in the graph, by one `Network.backward`.

    `net` is the network that made the run, if not the model's own. Raises ValueError for a run with numbers set.

    Unembedding back starts from the positions that the loss reads alone: it would be a third of the work of a short
    text, and all slopes of the others are 0.
    """
    if run.patches:
        raise ValueError("a number that was set has other slopes than the network's own")
    scored = slice(run.scored.start, run.scored.stop)
    found = slopes_at_the_end(run, run.scored)
    slopes = {
        site: slope if site == "loss" else _among_zeros(run.shape(site), scored, slope) for site, slope in found.items()
    }
    net = net or run.model.capture.net
    device = net.W_E.device
    final = torch.zeros_like(run.tensor("ln_final.out"), device=device)
    final[scored] = found["logits"].to(device) @ net.unembedding
    net.backward(final, BackwardPass(lambda site: run.tensor(site).to(device), slopes))
    return {site: slope.cpu() for site, slope in slopes.items()}


def slopes_at_the_end(run: Run, scored: range) -> dict[str, Tensor]:
    """The loss's slope along logits, probs, log_probs and each token's loss, at some of the scored positions."""
    share = 1 / len(run.scored)
    logits = run.tensor("logits")[scored.start : scored.stop]
    probs = logits.softmax(-1)
    places = (torch.arange(len(scored)), torch.tensor([*map(run.next_token, scored)]))
    p, tiny = probs[places], too_small(probs[places])
    along_probs, along_log_probs = torch.zeros_like(probs), torch.zeros_like(probs)
    along_probs[places] = torch.where(tiny, 0.0, -share / torch.where(tiny, 1.0, p))
    along_log_probs[places] = torch.where(tiny, -share, 0.0)
    along_logits = probs.mul_(share)
    along_logits[places] -= share
    return {
        "loss": logits.new_ones(()),
        "loss_per_token": logits.new_full((len(scored),), share),
        "log_probs": along_log_probs,
        "probs": along_probs,
        "logits": along_logits,
    }


def _among_zeros(shape: tuple[int, ...], rows: slice, slope: Tensor) -> Tensor:
    """The slope in its rows of a tensor that is 0 elsewhere (numpy's zeros take memory only where they are written)."""
    whole = torch.from_numpy(np.zeros(shape, np.float32))
    whole[rows] = slope
    return whole


def loss_on(capture: Capture, run: Run) -> float:
    """What the run's loss is on the network of `capture`."""
    logits = capture(run.tokens)["logits"][0, run.scored.start : run.scored.stop]
    logits = logits.cpu()
    places = (torch.arange(len(run.scored)), torch.tensor([*map(run.next_token, run.scored)]))
    p = logits.softmax(-1)[places]
    return float(minus_log_p(p, lambda: logits.log_softmax(-1)[places]).mean())


def on_demand(run: Run, name: str, index: tuple[Index, ...]) -> Tensor:
    """∂loss/∂name[index] for a parameter, or for a site no tape reaches: the sum over what hands a slope back to it.

    Summed in float64 and rounded once to float32, so that a number is the same whatever part it is asked for with.
    """
    if name == "W_U":
        slopes = on_demand(run, "W_E", index[::-1])
        return slopes.T if slopes.ndim == 2 else slopes
    total: Tensor | None = None
    for node in reversed(run.model.graph.gradient_consumers(name)):
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
    for passer in run.model.graph.gradient_consumers(node.name):
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
    slopes = [passer.op.slope(node.name) for passer in run.model.graph.gradient_consumers(node.name)]
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
