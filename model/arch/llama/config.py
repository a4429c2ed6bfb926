"""The shape of one network of the Llama family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from model.arch.base import Config, refuse_others
from model.errors import CheckpointError

# Settings of a Hugging Face config that change the arithmetic, with the only value this network computes.
FIXED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "pretraining_tp": 1}


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Config):
    """`n_key_value` heads have keys and values, each read by as many query heads as the others; `head_dim` is d_head.

    theta  the base of the rotary angles: pair i turns by theta^(−2i/d_head) a position
    tied   whether the unembedding is the embedding table
    """

    model_type: ClassVar[str] = "llama"
    stored_as: ClassVar[Mapping[str, str]] = {
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "num_key_value_heads": "n_key_value",
        "hidden_size": "d_model",
        "head_dim": "head_dim",
        "intermediate_size": "d_mlp",
        "vocab_size": "d_vocab",
        "max_position_embeddings": "n_ctx",
        "rms_norm_eps": "eps",
        "rope_theta": "theta",
        "tie_word_embeddings": "tied",
    }

    n_key_value: int
    head_dim: int
    theta: float = 10_000.0
    tied: bool = False
    act: str = "silu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_head % self.n_key_value:
            raise CheckpointError(
                f"config: {self.n_key_value} key-value heads do not divide {self.n_head} heads evenly"
            )
        if self.head_dim % 2:
            raise CheckpointError(f"config: a head of {self.head_dim} entries cannot be turned in pairs")

    @property
    def d_head(self) -> int:
        return self.head_dim

    @property
    def n_kv_head(self) -> int:
        return self.n_key_value

    @classmethod
    def from_hf(cls, hf: Mapping[str, Any]) -> Self:
        refuse_others(hf, FIXED)
        rope = hf.get("rope_parameters") or hf.get("rope_scaling") or {}
        if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
            raise CheckpointError(f"config.json: rope_type = {kind!r} is not supported, only 'default'")
        found = {
            "num_key_value_heads": hf["num_attention_heads"],
            "head_dim": hf["hidden_size"] // hf["num_attention_heads"],
            "rms_norm_eps": 1e-6,
            "rope_theta": 10_000.0,
            "tie_word_embeddings": False,
        }
        found |= {name: value for name, value in {**hf, **rope}.items() if value is not None}
        return cls(**{ours: found[theirs] for theirs, ours in cls.stored_as.items()})

    def to_hf(self, start_id: int) -> dict[str, Any]:
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": self.model_type,
            **{theirs: getattr(self, ours) for theirs, ours in self.stored_as.items()},
            "hidden_act": "silu",
            "bos_token_id": start_id,
            "eos_token_id": start_id,
        }
