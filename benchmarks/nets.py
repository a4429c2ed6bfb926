"""GPT-2 small's shape with random weights, here and in transformers, both on the same memory."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, cast

import torch
from transformers import GPT2Config as HFConfig
from transformers import GPT2LMHeadModel

from model.arch.gpt2.architecture import hf_names
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.runtime.language_model import LanguageModel
from model.weights.tokenizer import Tokenizer

GPT2_SMALL = GPT2Config(n_layer=12, n_head=12, d_model=768, d_mlp=3072, d_vocab=50257, n_ctx=1024)


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
        net: Any = GPT2LMHeadModel(HFConfig(**settings | {"attn_implementation": attention}))
    state = ours().net.state_dict()
    tensors = {f"transformer.{name}": state[mine] for name, mine in hf_names(GPT2_SMALL).items()}
    net.load_state_dict(tensors | {"lm_head.weight": state["W_E"]}, assign=True)
    net.requires_grad_(False).eval()
    return cast(GPT2LMHeadModel, net)


def hooked_twin(net: GPT2) -> Any:
    """TransformerLens's own GPT-2 with a copy of these weights, nothing folded or centred. Raises ImportError."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    c = net.config
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it says that version 4 is without it
        theirs = HookedTransformer(
            HookedTransformerConfig(
                n_layers=c.n_layer, n_heads=c.n_head, d_model=c.d_model, d_head=c.d_head, d_mlp=c.d_mlp,
                d_vocab=c.d_vocab, n_ctx=c.n_ctx, act_fn=c.act, eps=c.eps, normalization_type="LN",
                init_weights=False, device="cpu",
            )
        )  # fmt: skip
    state = {name: p.detach() for name, p in net.named_parameters()}
    tensors = {"embed.W_E": state["W_E"], "unembed.W_U": state["W_E"].T, "pos_embed.W_pos": state["W_pos"]}
    tensors["unembed.b_U"] = torch.zeros(c.d_vocab)
    for name, p in state.items():
        before, _, short = name.rpartition(".")
        if short == "W_QKV":  # columns: all queries head by head, then all keys, then all values
            for one, part in zip("QKV", p.unflatten(1, (3, c.n_head, c.d_head)).permute(1, 2, 0, 3), strict=True):
                tensors[f"{before}.W_{one}"] = part
        elif short == "b_QKV":
            for one, part in zip("QKV", p.unflatten(0, (3, c.n_head, c.d_head)), strict=True):
                tensors[f"{before}.b_{one}"] = part
        elif before:
            tensors[name] = p.unflatten(0, (c.n_head, c.d_head)) if short == "W_O" else p
    theirs.load_state_dict(tensors, strict=False)
    return theirs.eval()


@cache
def lens() -> Any:
    """TransformerLens's GPT-2 with the weights of `ours`. Raises ImportError."""
    return hooked_twin(ours().net)


def tokens(n: int) -> list[int]:
    """The start token and n − 1 random ones, the same every time."""
    return [0, *torch.randint(1, GPT2_SMALL.d_vocab, (n - 1,), generator=torch.Generator().manual_seed(n)).tolist()]
