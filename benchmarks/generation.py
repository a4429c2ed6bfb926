"""Tokens per second with the cache, every choice laid open, against transformers' `generate` with its cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks import nets
from benchmarks.race import Race

SAMPLED = {"temperature": 0.8, "top_k": 40, "top_p": 0.95}


def races() -> Iterator[Race]:
    yield _race("greedy, 32 tokens after 15", 15, 32, {"temperature": 0})
    yield _race("sampled, 32 tokens after 15", 15, 32, SAMPLED)
    yield _race("greedy, 32 tokens after 512", 512, 32, {"temperature": 0})


def _race(name: str, prompt: int, steps: int, settings: dict[str, Any]) -> Race:
    return Race(
        name=f"generate: {name}",
        ours=lambda: ours(prompt, steps, settings),
        theirs=lambda: theirs(prompt, steps, settings),
        limit=1.0,
        against="transformers generate",
        unit="ms a token",
        parts=steps,
    )


def ours(prompt: int, steps: int, settings: dict[str, Any]) -> list[int]:
    made = [step.token for step in nets.ours().generate(nets.tokens(prompt), steps, **settings)]
    assert len(made) == steps
    return made


def theirs(prompt: int, steps: int, settings: dict[str, Any]) -> list[int]:
    ids = torch.tensor([nets.tokens(prompt)])
    greedy = settings["temperature"] == 0
    out = nets.theirs().generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=steps,
        pad_token_id=0,
        use_cache=True,
        **({"do_sample": False} if greedy else {"do_sample": True, **settings}),
    )
    made: list[int] = out[0, prompt:].tolist()
    assert len(made) == steps
    return made
