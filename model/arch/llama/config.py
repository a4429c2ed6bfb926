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
        return cls(
            n_layer=hf["num_hidden_layers"],
            n_head=hf["num_attention_heads"],
            n_key_value=hf.get("num_key_value_heads") or hf["num_attention_heads"],
            d_model=hf["hidden_size"],
            head_dim=hf.get("head_dim") or hf["hidden_size"] // hf["num_attention_heads"],
            d_mlp=hf["intermediate_size"],
            d_vocab=hf["vocab_size"],
            n_ctx=hf["max_position_embeddings"],
            eps=hf.get("rms_norm_eps", 1e-6),
            theta=rope.get("rope_theta", hf.get("rope_theta", 10_000.0)),
            tied=hf.get("tie_word_embeddings", False),
        )

    def to_hf(self, start_id: int) -> dict[str, Any]:
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": self.n_layer,
            "num_attention_heads": self.n_head,
            "num_key_value_heads": self.n_key_value,
            "hidden_size": self.d_model,
            "head_dim": self.head_dim,
            "intermediate_size": self.d_mlp,
            "vocab_size": self.d_vocab,
            "max_position_embeddings": self.n_ctx,
            "rms_norm_eps": self.eps,
            "rope_theta": self.theta,
            "tie_word_embeddings": self.tied,
            "hidden_act": "silu",
            "bos_token_id": start_id,
            "eos_token_id": start_id,
        }
