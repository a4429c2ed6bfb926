"""GPT-2 small's shape with random weights, here and in transformers, both on the same memory."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from model.checkpoints import hf_names
from model.config import Config
from model.gpt2 import GPT2
from model.language_model import LanguageModel
from model.tokenizer import Tokenizer

GPT2_SMALL = Config(n_layer=12, n_head=12, d_model=768, d_mlp=3072, d_vocab=50257, n_ctx=1024)


@cache
def ours() -> LanguageModel:
    """With the very weights that `theirs` runs on."""
    net = GPT2(GPT2_SMALL)
    net.init_weights(torch.Generator().manual_seed(0))
    return LanguageModel("GPT-2 small", net.eval(), tokenizer())


def tokenizer() -> Tokenizer:
    """Bytes and made-up words."""
    vocab = {bytes([b]): b + 1 for b in range(256)} | {f" word{n}".encode(): n for n in range(257, GPT2_SMALL.d_vocab)}
    return Tokenizer(vocab, start_id=0)


@cache
def theirs(attention: str = "sdpa") -> GPT2LMHeadModel:
    """transformers' network over the same tensors; `attention` is "sdpa", its default, or "eager"."""
    settings = {k: v for k, v in GPT2_SMALL.to_hf(0).items() if k not in ("architectures", "model_type")}
    with torch.device("meta"):
        net: Any = GPT2LMHeadModel(GPT2Config(**settings | {"attn_implementation": attention}))
    state = ours().net.state_dict()
    tensors = {f"transformer.{name}": state[mine] for name, mine in hf_names(GPT2_SMALL).items()}
    net.load_state_dict(tensors | {"lm_head.weight": state["W_E"]}, assign=True)
    net.requires_grad_(False).eval()
    return cast(GPT2LMHeadModel, net)


@cache
def lens() -> Any:
    """TransformerLens's bridge around transformers' network, nothing folded or centred. Raises ImportError."""
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    net = theirs.__wrapped__("eager")  # its own: the bridge puts hooks into it
    return build_bridge_from_module(net, "GPT2LMHeadModel", hf_config=net.config)


def tokens(n: int) -> list[int]:
    """The start token and n − 1 random ones, the same every time."""
    return [0, *torch.randint(1, GPT2_SMALL.d_vocab, (n - 1,), generator=torch.Generator().manual_seed(n)).tolist()]
