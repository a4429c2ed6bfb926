"""The Llama family (Touvron et al. 2023) as the project sees it, forward alone, and how its files name its tensors."""

from __future__ import annotations

import re

from torch import Tensor

from model.arch.architecture import Architecture, Stored
from model.arch.llama.config import LlamaConfig
from model.arch.llama.network import Llama
from model.arch.llama.nodes import nodes

IN_BLOCK = {
    "input_layernorm.weight": "ln1.w",
    "self_attn.q_proj.weight": "attn.W_Q",
    "self_attn.k_proj.weight": "attn.W_K",
    "self_attn.v_proj.weight": "attn.W_V",
    "self_attn.o_proj.weight": "attn.W_O",
    "post_attention_layernorm.weight": "ln2.w",
    "mlp.gate_proj.weight": "mlp.W_gate",
    "mlp.up_proj.weight": "mlp.W_in",
    "mlp.down_proj.weight": "mlp.W_out",
}
ANGLES = re.compile(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq")  # some files carry them; they follow from theta


def stored(config: LlamaConfig) -> Stored:
    """The names in a checkpoint's file."""
    names = {"model.embed_tokens.weight": "W_E", "model.norm.weight": "ln_final.w"}
    for n in range(config.n_layer):
        names |= {f"model.layers.{n}.{theirs}": f"blocks.{n}.{ours}" for theirs, ours in IN_BLOCK.items()}
    head = {"lm_head.weight": "W_E" if config.tied else "W_U"}
    return Stored(names if config.tied else names | head, repeated=head if config.tied else {}, ignored=ANGLES)


def views(name: str, tensor: Tensor, c: LlamaConfig) -> dict[str, Tensor]:
    """A stored parameter under the graph's name and axes, as a view."""
    short = name.rpartition(".")[2]
    if short in ("W_Q", "W_K", "W_V"):
        return {name: tensor.view(-1, c.d_head, c.d_model).transpose(1, 2)}
    if short == "W_O":
        return {name: tensor.view(c.d_model, c.n_head, c.d_head).permute(1, 2, 0)}
    return {name: tensor.T if short in ("W_gate", "W_in", "W_out", "W_U") else tensor}


LLAMA_ARCHITECTURE = Architecture(
    model_type=LlamaConfig.model_type,
    name="Llama",
    config=LlamaConfig,
    nodes=nodes,
    network=Llama,
    stored=stored,
    views=views,
    stored_under=lambda name: name,
    head_constant=lambda config, n: None,
    is_whole=False,
)
