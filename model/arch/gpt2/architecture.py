"""GPT-2 (Radford et al. 2019) as the project sees it, and how its checkpoints name and hold its tensors."""

from __future__ import annotations

import re

from torch import Tensor

from model.arch.architecture import Architecture, Stored
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.arch.gpt2.nodes import nodes

# Hugging Face's name -> the network's parameter. Both store linear weights as [in, out].
OUTER = {
    "wte.weight": "W_E",
    "wpe.weight": "W_pos",
    "ln_f.weight": "ln_final.w",
    "ln_f.bias": "ln_final.b",
}
IN_BLOCK = {
    "ln_1.weight": "ln1.w",
    "ln_1.bias": "ln1.b",
    "attn.c_attn.weight": "attn.W_QKV",
    "attn.c_attn.bias": "attn.b_QKV",
    "attn.c_proj.weight": "attn.W_O",
    "attn.c_proj.bias": "attn.b_O",
    "ln_2.weight": "ln2.w",
    "ln_2.bias": "ln2.b",
    "mlp.c_fc.weight": "mlp.W_in",
    "mlp.c_fc.bias": "mlp.b_in",
    "mlp.c_proj.weight": "mlp.W_out",
    "mlp.c_proj.bias": "mlp.b_out",
}

# Not parameters: the causal mask, which some published files carry along.
MASK = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")


def hf_names(config: GPT2Config) -> dict[str, str]:
    """Hugging Face's tensor name (without `transformer.`) -> the network's parameter name, for every parameter."""
    blocks = {
        f"h.{n}.{theirs}": f"blocks.{n}.{ours}" for n in range(config.n_layer) for theirs, ours in IN_BLOCK.items()
    }
    return OUTER | blocks


def stored(config: GPT2Config) -> Stored:
    """The names in a checkpoint's file. The unembedding, where it is there, must be the embedding table."""
    return Stored(hf_names(config), "transformer.", {"lm_head.weight": "W_E"}, MASK)


def stored_under(name: str) -> str:
    """The network's name for the tensor that holds a parameter: W_Q, W_K and W_V lie side by side in W_QKV."""
    attn, _, short = name.rpartition(".")
    return f"{attn}.{short[0]}_QKV" if short in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V") else name


def views(name: str, tensor: Tensor, c: GPT2Config) -> dict[str, Tensor]:
    """A stored parameter under the graph's names and axes, as views: attention's is [d_model, 3·d_model]."""
    attn = name.rpartition(".")[0]
    if name.endswith("W_QKV"):
        parts = zip("QKV", tensor.split(c.d_model, dim=1), strict=True)
        return {f"{attn}.W_{x}": part.view(c.d_model, c.n_head, c.d_head).permute(1, 0, 2) for x, part in parts}
    if name.endswith("b_QKV"):
        parts = zip("QKV", tensor.split(c.d_model), strict=True)
        return {f"{attn}.b_{x}": part.view(c.n_head, c.d_head) for x, part in parts}
    if name.endswith("W_O"):
        return {name: tensor.view(c.n_head, c.d_head, c.d_model)}
    return {name: tensor}


GPT2_ARCHITECTURE = Architecture(
    model_type=GPT2Config.model_type,
    name="GPT-2",
    config=GPT2Config,
    nodes=nodes,
    network=GPT2,
    stored=stored,
    views=views,
    stored_under=stored_under,
    head_constant=lambda config, n: (f"blocks.{n}.attn.b_V", f"blocks.{n}.attn.W_O"),
)
