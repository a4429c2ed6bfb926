"""The Llama family (Touvron et al. 2023) as the project sees it: its forward pass, explained."""

from __future__ import annotations

from model.arch.architecture import Architecture
from model.arch.llama.config import LlamaConfig
from model.arch.llama.network import Llama
from model.arch.llama.nodes import nodes
from model.arch.llama.stored import stored, views

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
