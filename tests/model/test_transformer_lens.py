"""Sites, slopes and parameters against TransformerLens, by their shared names, on the same random weights.

TransformerLens wraps transformers' GPT-2 without processing: no norm folded into the weights, nothing centred. Its
`hook_attn_scores` come after ÷ √d_head and the mask, as our `scores` do; its `hook_scale` is √(var + ε), as ours is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

from model.language_model import LanguageModel
from model.run import Run
from tests.model.models import GPT2_SMALL, SHAPES, byte_tokenizer, random_network, twin

CONFIGS = {
    "small": SHAPES["small"],
    "relu": SHAPES["relu"],
    "gpt2's width": (replace(GPT2_SMALL, n_layer=2), 1.0),
}

# Sites that TransformerLens has no name for: what its fused functions skip, and what comes after the logits.
OURS_ALONE = {"tokens", "mean", "var", "qk", "exp", "probs", "log_probs", "loss_per_token", "loss"}

NOT_ON_THE_WAY = {"result"}  # a view here, while TransformerLens sends the loss through it

CLOSE = 1e-5  # of the tensor's largest number: float32, each library in its own order of additions
CLOSE_SLOPES = 1e-4


@dataclass(frozen=True)
class Both:
    """One text through both networks. `cache` and `slopes` are TransformerLens's, by the full names of its hooks."""

    run: Run
    bridge: Any
    cache: dict[str, torch.Tensor]
    slopes: dict[str, torch.Tensor]


@cache
def both(name: str) -> Both:
    config, scale = CONFIGS[name]
    net = random_network(config, scale)
    run = LanguageModel(name, net, byte_tokenizer(config.d_vocab)).run("Two words, 🙂")
    theirs = twin(net)
    bridge = build_bridge_from_module(theirs, "GPT2LMHeadModel", hf_config=theirs.config)
    bridge.set_use_attn_result(True)
    kept, forward, backward = bridge.get_caching_hooks(incl_bwd=True)
    with bridge.hooks(fwd_hooks=forward, bwd_hooks=backward):
        logits = bridge(torch.tensor([run.tokens]))
        torch.nn.functional.cross_entropy(logits[0, -1], torch.tensor(run.target)).backward()
    values = {k: v.detach() for k, v in kept.items() if not k.endswith("_grad")}
    return Both(run, bridge, values, {k.removesuffix("_grad"): v for k, v in kept.items() if k.endswith("_grad")})


def part(bridge: Any, name: str) -> Any:
    """What TransformerLens keeps under a name with dots, or None."""
    for step in name.split("."):
        bridge = bridge[int(step)] if step.isdecimal() else getattr(bridge, step, None)
    return bridge


def hook(bridge: Any, site: str) -> str:
    """The full name of TransformerLens's hook that bears a site's name (`hook_q` is short for one), or ""."""
    before, dot, short = site.rpartition(".")
    name = f"hook_{'attn_scores' if short == 'scores' else short}"
    found = part(bridge, "unembed.hook_out" if short == "logits" else before + dot + name)
    return found.name if found is not None else ""


def in_our_shape(theirs: torch.Tensor, ours: NDArray[Any]) -> NDArray[Any]:
    """Without the batch axis, and without the last axis of one that their norms keep."""
    return theirs[0].reshape(ours.shape).numpy()


def apart(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference, relative to the largest number of the tensor."""
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shared_site_is_equal(name: str) -> None:
    run, bridge, cached = both(name).run, both(name).bridge, both(name).cache
    assert {node.short for node in run.model.graph.sites if hook(bridge, node.name) not in cached} == OURS_ALONE
    for node in run.model.graph.sites:
        if node.short in OURS_ALONE:
            continue
        ours = run[node.name]
        theirs = in_our_shape(cached[hook(bridge, node.name)], ours)
        if node.short == "scores":  # the future: −∞ here, float32's lowest number there
            future = np.isneginf(ours)
            assert (theirs[future] == np.finfo(np.float32).min).all() and future.any()
            ours, theirs = ours[~future], theirs[~future]
        assert apart(ours, theirs) <= CLOSE, node.name


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shared_slope_is_equal(name: str) -> None:
    """`.grad` of a site is the gradient that autograd hands to TransformerLens's hook there."""
    run, bridge, slopes = both(name).run, both(name).bridge, both(name).slopes
    for node in run.model.graph.sites:
        if node.short not in OURS_ALONE | NOT_ON_THE_WAY:
            ours = run[f"{node.name}.grad"]
            theirs = in_our_shape(slopes[hook(bridge, node.name)], ours)
            if node.short == "resid_mid":  # their hook sits behind the fork, on the way into the norm alone
                theirs = theirs + in_our_shape(slopes[hook(bridge, f"blocks.{node.block}.resid_post")], ours)
            assert apart(ours, theirs) <= CLOSE_SLOPES, node.name


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_has_the_same_name_and_axes(name: str) -> None:
    """`blocks.1.attn.W_Q` is `bridge.blocks[1].attn.W_Q`, and so on, number for number."""
    run, bridge = both(name).run, both(name).bridge
    for node in run.model.graph.parameters:
        theirs = part(bridge, node.name)
        assert np.array_equal(run[node.name], theirs.detach().numpy()), node.name
