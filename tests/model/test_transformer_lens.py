"""Sites, slopes and parameters against TransformerLens, by their shared names, on the same random weights.

Its HookedTransformer computes GPT-2 by itself, here without processing: no norm folded into the weights, nothing
centred. Its `hook_attn_scores` come after ÷ √d_head and the mask, as our `scores` do; its `hook_scale` is √(var + ε),
as ours is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.nets import hooked_twin
from model.runtime.language_model import LanguageModel
from model.runtime.run import Run
from tests.model.models import GPT2_SMALL, SHAPES, byte_tokenizer, random_network

CONFIGS = {
    "small": SHAPES["small"],
    "relu": SHAPES["relu"],
    "gpt2's width": (replace(GPT2_SMALL, n_layer=2), 1.0),
}

# Sites that TransformerLens has no name for: what its fused functions skip, and what comes after the logits.
OURS_ALONE = {"tokens", "mean", "var", "out", "qk", "exp", "probs", "log_probs", "loss_per_token", "loss"}

CLOSE = 1e-5  # of the tensor's largest number: float32, each library in its own order of additions
CLOSE_SLOPES = 1e-4


@dataclass(frozen=True)
class Both:
    """One text through both networks: TransformerLens's values and slopes by the full names of its hooks."""

    run: Run
    theirs: Any
    values: dict[str, torch.Tensor]
    slopes: dict[str, torch.Tensor]


@cache
def both(name: str) -> Both:
    config, scale = CONFIGS[name]
    net = random_network(config, scale)
    run = LanguageModel(name, net, byte_tokenizer(config.d_vocab)).run("Two words, 🙂")
    theirs = hooked_twin(net)
    theirs.set_use_attn_result(True)
    values: dict[str, torch.Tensor] = {}
    slopes: dict[str, torch.Tensor] = {}

    def keep(value: torch.Tensor, hook: Any) -> None:
        values[hook.name] = value.detach()

    def add(slope: torch.Tensor, hook: Any) -> None:
        """The first norm runs three times, for queries, keys and values: its slope is the sum of the three."""
        slopes[hook.name] = slopes.get(hook.name, 0) + slope.detach()

    with theirs.hooks(fwd_hooks=[(lambda _: True, keep)], bwd_hooks=[(lambda _: True, add)]):
        logits = theirs(torch.tensor([run.tokens]))
        logits.retain_grad()
        torch.nn.functional.cross_entropy(logits[0, -1], torch.tensor(run.target)).backward()
    values["logits"], slopes["logits"] = logits.detach(), logits.grad
    return Both(run, theirs, values, slopes)


def hook(site: str) -> str:
    """The full name of the hook that bears a site's name; the logits are what TransformerLens returns."""
    before, dot, short = site.rpartition(".")
    short = "attn_scores" if short == "scores" else short
    return site if site == "logits" else f"{before}{dot}hook_{short}"


def in_our_shape(theirs: torch.Tensor, ours: NDArray[Any]) -> NDArray[Any]:
    """Without the batch axis, and without the last axis of one that their norms keep."""
    return theirs[0].reshape(ours.shape).numpy()


def apart(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference, relative to the largest number of the tensor."""
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shared_site_is_equal(name: str) -> None:
    run, values = both(name).run, both(name).values
    assert {node.short for node in run.model.graph.sites if hook(node.name) not in values} == OURS_ALONE
    for node in run.model.graph.sites:
        if node.short not in OURS_ALONE:
            ours = run[node.name]
            theirs = in_our_shape(values[hook(node.name)], ours)
            if node.short == "scores":
                future = np.isneginf(ours)
                assert future.any() and np.array_equal(future, np.isneginf(theirs))
                ours, theirs = ours[~future], theirs[~future]
            assert apart(ours, theirs) <= CLOSE, node.name


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shared_slope_is_equal(name: str) -> None:
    """`.grad` of a site is the gradient that autograd hands to TransformerLens's hook there."""
    run, slopes = both(name).run, both(name).slopes
    for node in run.model.graph.sites:
        if node.short not in OURS_ALONE:
            ours = run[f"{node.name}.grad"]
            assert apart(ours, in_our_shape(slopes[hook(node.name)], ours)) <= CLOSE_SLOPES, node.name


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_has_the_same_name_and_axes(name: str) -> None:
    """`blocks.1.attn.W_Q` is TransformerLens's `blocks[1].attn.W_Q`, and so on, number for number."""
    run = both(name).run
    theirs = dict(both(name).theirs.named_parameters())
    names = {name.removeprefix(of): name for name in theirs for of in ("embed.", "pos_embed.", "unembed.")}
    for node in run.model.graph.parameters:
        assert np.array_equal(run[node.name], theirs[names[node.name]].detach().numpy()), node.name
