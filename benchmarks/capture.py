"""A forward pass with every site captured, all activation gradients, and ten learning steps, against plain ways."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import torch
from torch.nn.functional import cross_entropy

from benchmarks import nets
from benchmarks.race import Race
from model.arch.gpt2.network import GPT2Block
from model.ops.update import Rate
from model.ops.values import Prompt
from model.runtime.backward import site_gradients
from model.runtime.learn import Learning
from model.runtime.run import Run

LENGTHS = (15, 128, 512)
STEPS = 10


def races() -> Iterator[Race]:
    for n in LENGTHS:
        yield Race(
            name=f"forward, every site captured, {n} tokens",
            ours=lambda n=n: run_of(n),  # type: ignore[misc]
            theirs=lambda n=n: their_forward(n),  # type: ignore[misc]
            limit=1.0,
            against="transformers forward (eager)",
        )
    for n in LENGTHS:
        yield Race(
            name=f"forward, every site captured, {n} tokens",
            ours=lambda n=n: run_of(n),  # type: ignore[misc]
            theirs=lambda n=n: lens_forward(n),  # type: ignore[misc]
            limit=0.5,
            against="TransformerLens run_with_cache",
        )
        yield Race(
            name=f"the forward's matrix products alone, {n} tokens",
            ours=lambda n=n: products(n),  # type: ignore[misc]
            theirs=lambda n=n: lens_forward(n),  # type: ignore[misc]
            limit=math.inf,
            against="TransformerLens run_with_cache",
        )
    for n in LENGTHS:
        yield Race(
            name=f"all activation gradients, {n} tokens",
            ours=lambda n=n: site_gradients(kept(n), nets.ours().capture.net),  # type: ignore[misc]
            theirs=lambda n=n: their_backward(n),  # type: ignore[misc]
            limit=0.5,
            against="transformers forward + backward",
        )
    yield Race(
        name=f"{STEPS} learning steps, 15 tokens",
        ours=lambda: Learning(kept(15), Rate(1e-5)).take(STEPS),
        theirs=lambda: their_steps(15),
        limit=1.1,
        against="plain PyTorch loop on transformers",
        unit="ms a step",
        parts=STEPS,
        most_rounds=5,
    )


@cache
def kept(n: int) -> Run:
    """One run of `n` tokens, made once: a race runs each way unseen before the clock starts."""
    return run_of(n)


def run_of(n: int) -> Run:
    return Run.of(nets.ours(), Prompt("", tuple(nets.tokens(n)), target=5))


def their_forward(n: int) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = nets.theirs("eager")(torch.tensor([nets.tokens(n)])).logits
    return logits


def products(n: int) -> None:
    """Every product of a forward pass with a matrix of weights, on n rows of noise: no forward is quicker than that."""
    net = nets.ours().net
    rows, wide = noise(n, net.config.d_model), noise(n, net.config.d_mlp)
    with torch.no_grad():
        for block in net.blocks:
            assert isinstance(block, GPT2Block)
            rows @ block.attn.W_QKV, rows @ block.attn.W_O, rows @ block.mlp.W_in, wide @ block.mlp.W_out
        rows @ net.W_E.T


@cache
def noise(n: int, width: int) -> torch.Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(n))


def lens_forward(n: int) -> object:
    with torch.no_grad():
        both: object = nets.lens().run_with_cache(torch.tensor([nets.tokens(n)]))
    return both


def their_loss(net: torch.nn.Module, n: int) -> torch.Tensor:
    return cross_entropy(net(torch.tensor([nets.tokens(n)])).logits[0, -1:], torch.tensor([5]))


def their_backward(n: int) -> None:
    net = nets.theirs("eager")
    net.requires_grad_(True)
    their_loss(net, n).backward()
    net.zero_grad(set_to_none=True)
    net.requires_grad_(False)


def their_steps(n: int) -> None:
    """A loop as anyone would write it, on a copy of the weights."""
    import copy

    net = copy.deepcopy(nets.theirs("eager")).requires_grad_(True)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        their_loss(net, n).backward()
        optimizer.step()
    with torch.no_grad():
        their_loss(net, n)
