"""GPT-2 (Radford et al. 2019) as the project sees it."""

from __future__ import annotations

from model.arch.architecture import Architecture
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.arch.gpt2.nodes import nodes
from model.arch.gpt2.stored import stored, stored_under, views

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
