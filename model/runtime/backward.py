"""The backward pass: ∂loss/∂(every number), found by one pass over what was captured.

A parameter's gradient is never stored by PyTorch: it follows on demand from the captured sites on both sides of it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from model.address.trees import Index
from model.arch.graph import Graph
from model.arch.network import BackwardPass, Network
from model.ops.loss import minus_log_p, too_small
from model.ops.values import Values
from model.runtime.capture import Capture


@torch.no_grad()
def site_gradients(run: Values, net: Network) -> dict[str, Tensor]:
    """∂loss/∂site for every captured site but `qk`, float32, axes as in the graph, by one `Network.backward`.

    `net` is the network that made the run. Raises ValueError for a run with numbers set.

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
    device = net.W_E.device
    final = torch.zeros_like(run.tensor("ln_final.out"), device=device)
    final[scored] = found["logits"].to(device) @ net.unembedding
    net.backward(final, BackwardPass(lambda site: run.tensor(site).to(device), slopes))
    return {site: slope.cpu() for site, slope in slopes.items()}


def slopes_at_the_end(run: Values, scored: range) -> dict[str, Tensor]:
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


def loss_on(capture: Capture, run: Values) -> float:
    """What the run's loss is on the network of `capture`."""
    logits = capture(run.tokens)["logits"][0, run.scored.start : run.scored.stop]
    logits = logits.cpu()
    places = (torch.arange(len(run.scored)), torch.tensor([*map(run.next_token, run.scored)]))
    p = logits.softmax(-1)[places]
    return float(minus_log_p(p, lambda: logits.log_softmax(-1)[places]).mean())


def on_demand(graph: Graph, run: Values, name: str, index: tuple[Index, ...]) -> Tensor:
    """∂loss/∂name[index] for a parameter, or for a site no tape reaches: the sum over what hands a slope back to it.

    Summed in float64 and rounded once to float32, so that a number is the same whatever part it is asked for with.
    """
    total: Tensor | None = None
    for _, op in reversed(graph.gradient_rules(name)):
        part = op.gradient(run, name, index)
        total = part if total is None else total.add_(part)
    return torch.zeros_like(run.tensor(name)[index]) if total is None else total.float()
