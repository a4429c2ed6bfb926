"""How Hugging Face names the tensors of a GPT-2."""

from __future__ import annotations

import re

from model.arch.gpt2.config import Config

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


def hf_names(config: Config) -> dict[str, str]:
    """Hugging Face's tensor name (without `transformer.`) -> the network's parameter name, for every parameter."""
    blocks = {
        f"h.{n}.{theirs}": f"blocks.{n}.{ours}" for n in range(config.n_layer) for theirs, ours in IN_BLOCK.items()
    }
    return OUTER | blocks
