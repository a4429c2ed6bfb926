"""Models that tests make: random weights of any shape, at a scale where every op has something to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import pytest
import torch
from transformers import GPT2Config as HFConfig
from transformers import GPT2LMHeadModel

from model.arch.gpt2.architecture import hf_names
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.runtime.language_model import LanguageModel
from model.weights.tokenizer import Tokenizer

# name -> config and the size of the weights relative to GPT-2's start
SHAPES = {
    "small": (GPT2Config(n_layer=2, n_head=2, d_model=16, d_mlp=64, d_vocab=300, n_ctx=32), 6.0),
    "wide": (GPT2Config(n_layer=3, n_head=4, d_model=96, d_mlp=384, d_vocab=1000, n_ctx=64), 12.0),
    "relu": (GPT2Config(n_layer=2, n_head=4, d_model=64, d_mlp=100, d_vocab=500, n_ctx=48, act="relu"), 15.0),
    "one head": (GPT2Config(n_layer=1, n_head=1, d_model=8, d_mlp=24, d_vocab=270, n_ctx=24), 20.0),
}
GPT2_SMALL = GPT2Config(n_layer=12, n_head=12, d_model=768, d_mlp=3072, d_vocab=50257, n_ctx=1024)


E = TypeVar("E", bound=Exception)


def error_of(kind: type[E], call: Callable[..., Any], *arguments: Any) -> E:
    """The error of this kind that the call must raise."""
    with pytest.raises(kind) as caught:
        call(*arguments)
    return caught.value


def random_network(config: GPT2Config, scale: float = 1.0, seed: int = 0) -> GPT2:
    """Random weights, biases and LayerNorm parameters (away from their starts of 0 and 1, so that each counts)."""
    net, generator = GPT2(config), torch.Generator().manual_seed(seed)
    net.init_weights(generator)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith(".w"):
                p.normal_(1.0, 0.2, generator=generator)
            elif name.split(".")[-1].startswith("b"):
                p.normal_(0.0, 0.1, generator=generator)
            else:
                p.mul_(scale)
    return net.eval()


def twin(net: GPT2) -> GPT2LMHeadModel:
    """transformers' GPT-2 (eager attention) over the same weights, which it shares."""
    settings = {k: v for k, v in net.config.to_hf(start_id=0).items() if k not in ("architectures", "model_type")}
    with torch.device("meta"):  # no time for weights that are replaced at once
        theirs: Any = GPT2LMHeadModel(HFConfig(**settings, attn_implementation="eager"))
    state = net.state_dict()
    tensors = {f"transformer.{name}": state[ours] for name, ours in hf_names(net.config).items()}
    theirs.load_state_dict(tensors | {"lm_head.weight": state["W_E"]}, assign=True)
    theirs.tie_weights()
    return theirs.eval()  # type: ignore[no-any-return]


def byte_tokenizer(d_vocab: int) -> Tokenizer:
    """`<|endoftext|>` as 0, the 256 bytes, and made-up words up to `d_vocab`."""
    vocab = {bytes([b]): b + 1 for b in range(256)}
    return Tokenizer(vocab | {f" word{n}".encode(): n for n in range(257, d_vocab)}, start_id=0)


@cache
def random_model(name: str) -> LanguageModel:
    """One of SHAPES, or "gpt2" for GPT-2 small's shape."""
    config, scale = (GPT2_SMALL, 1.0) if name == "gpt2" else SHAPES[name]
    return LanguageModel(name, random_network(config, scale), byte_tokenizer(config.d_vocab))
