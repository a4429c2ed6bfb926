"""The pass back of each part of the network alone, on numbers that no forward pass made.

In a real run some slopes cancel (deviations from a mean add up to 0), so that a wrong one would not show.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from model.arch.network import BackwardPass
from tests.model.models import random_model
from tests.model.op_oracle import gelu

POS = 5


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def passed_back(module: Any, values: dict[str, Tensor], *given: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """What a module's `backward` gives, and the slopes that it keeps."""
    slopes: dict[str, Tensor] = {}
    with torch.no_grad():
        found = module.double().backward(*given, BackwardPass(values.__getitem__, slopes))
    return found, slopes


def exact(network: Any) -> Any:
    """A copy in float64 that may be changed."""
    return type(network)(network.config).double().requires_grad_(False)


def test_layer_norm_with_a_mean_that_is_not_the_mean() -> None:
    net = random_model("small").net
    norm = exact(net).blocks[0].ln1
    norm.w.copy_(normal(*norm.w.shape))
    x, out = normal(POS, len(norm.w)).requires_grad_(), normal(POS, len(norm.w))
    mean = x.mean(-1) + 0.3
    var = (x - mean[:, None]).square().mean(-1)
    scale = (var + norm.eps).sqrt()
    normalized = (x - mean[:, None]) / scale[:, None]
    sites = {"mean": mean, "var": var, "scale": scale, "normalized": normalized}
    made = normalized * norm.w + norm.b
    expected = torch.autograd.grad(made, [x, *sites.values()], out)
    found, slopes = passed_back(norm, {name: site.detach() for name, site in sites.items()}, x.detach().clone(), out)
    for name, right in zip(sites, expected[1:], strict=True):
        assert torch.allclose(slopes[name], right), f"the slope along {name} is {slopes[name]}, not {right}"
    assert torch.allclose(slopes["out"], out)
    assert torch.allclose(found, expected[0]), "the slope along x"


@pytest.mark.parametrize("name", ["small", "relu", "one head"])
def test_attention(name: str) -> None:
    net = exact(random_model(name).net)
    attn, c = net.blocks[0].attn, net.config
    for p in attn.parameters():
        p.copy_(normal(*p.shape))
    x, out = normal(POS, c.d_model).requires_grad_(), normal(POS, c.d_model)
    q, k, v = (x @ attn.W_QKV + attn.b_QKV).view(POS, 3, c.n_head, c.d_model // c.n_head).unbind(1)
    qk = torch.einsum("qhc,khc->hqk", q, k) / (c.d_model / c.n_head) ** 0.5
    scores = qk.masked_fill(torch.ones(POS, POS).triu(1).bool(), -torch.inf)
    pattern = scores.softmax(-1)
    z = torch.einsum("hqk,khc->qhc", pattern, v)
    made = z.reshape(POS, c.d_model) @ attn.W_O
    sites = {"q": q, "k": k, "v": v, "scores": scores, "pattern": pattern, "z": z}
    expected = torch.autograd.grad(made, [x, *sites.values()], out)
    found, slopes = passed_back(attn, {n: site.detach() for n, site in sites.items()}, out)
    for n, right in zip(sites, expected[1:], strict=True):
        assert torch.allclose(slopes[n], right.nan_to_num(0.0)), f"the slope along {n}"
    assert torch.allclose(found, expected[0]), "the slope along what attention reads"


@pytest.mark.parametrize("name", ["small", "relu"])
def test_feed_forward(name: str) -> None:
    net = exact(random_model(name).net)
    mlp, c = net.blocks[1].mlp, net.config
    for p in mlp.parameters():
        p.copy_(normal(*p.shape))
    x, out = normal(POS, c.d_model).requires_grad_(), normal(POS, c.d_model)
    pre = x @ mlp.W_in + mlp.b_in
    post = pre.relu() if c.act == "relu" else gelu(pre)
    expected = torch.autograd.grad(post @ mlp.W_out, [x, pre, post], out)
    found, slopes = passed_back(mlp, {"pre": pre.detach(), "post": post.detach()}, out)
    for got, right in zip((found, slopes["pre"], slopes["post"]), expected, strict=True):
        assert torch.allclose(got, right)


def test_the_activations_slope_far_from_zero() -> None:
    """GELU's slope is 0 far below, 1 far above, and never undefined."""
    mlp = exact(random_model("small").net).blocks[0].mlp
    pre = torch.tensor([-300.0, -30.0, -1.0, 0.0, 0.1, 30.0, 300.0]).double()
    x = pre.clone().requires_grad_()
    right = torch.autograd.grad(torch.nn.functional.gelu(x, approximate="tanh").sum(), x)[0]
    post = torch.nn.functional.gelu(pre, approximate="tanh")
    got = mlp.act_backward(pre, post, torch.ones_like(pre))
    assert torch.allclose(got, right, atol=1e-12)
    assert torch.allclose(mlp.act(pre), post, atol=1e-12)
