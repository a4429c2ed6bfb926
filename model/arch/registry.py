"""The architectures that are known, found by a config or by what a checkpoint says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.arch.architecture import Architecture
from model.arch.base import Config
from model.arch.gpt2.architecture import GPT2_ARCHITECTURE
from model.arch.llama.architecture import LLAMA_ARCHITECTURE
from model.errors import CheckpointError

ARCHITECTURES: dict[str, Architecture[Any]] = {
    architecture.model_type: architecture for architecture in (GPT2_ARCHITECTURE, LLAMA_ARCHITECTURE)
}


def architecture_of(config: Config) -> Architecture[Any]:
    """The architecture that a config belongs to."""
    return ARCHITECTURES[config.model_type]


def config_from(hf: Mapping[str, Any]) -> Config:
    """Read a Hugging Face `config.json`. Raises CheckpointError that names what is unknown, unsupported or missing."""
    model_type = hf.get("model_type", "gpt2")
    if model_type not in ARCHITECTURES or not ARCHITECTURES[model_type].is_whole:
        known = " or ".join(repr(name) for name, architecture in ARCHITECTURES.items() if architecture.is_whole)
        raise CheckpointError(f"config.json: model_type is {model_type!r}, not {known}")
    try:
        config: Config = ARCHITECTURES[model_type].config.from_hf(hf)
        return config
    except KeyError as missing:
        raise CheckpointError(f"config.json: {missing.args[0]!r} is missing") from None
