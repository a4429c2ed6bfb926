"""The shape of one GPT-2: everything the graph, the network and the explanations need to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from model.arch.base import Config, refuse_others
from model.errors import CheckpointError
from model.ops.activation import ACTIVATIONS

KNOWN = [op.stored_as[0] for op in dict.fromkeys(ACTIVATIONS.values())]
USE = f"Use {' or '.join(KNOWN)}."

# Settings of a Hugging Face config that change the arithmetic, with the only value this network computes.
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class GPT2Config(Config):
    """Sizes of a GPT-2. `d_head` follows: the heads share d_model evenly."""

    model_type: ClassVar[str] = "gpt2"
    stored_as: ClassVar[Mapping[str, str]] = {
        "n_layer": "n_layer",
        "n_head": "n_head",
        "n_embd": "d_model",
        "n_inner": "d_mlp",
        "vocab_size": "d_vocab",
        "n_positions": "n_ctx",
        "activation_function": "act",
        "layer_norm_epsilon": "eps",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.n_head:
            raise CheckpointError(f"config: {self.n_head} heads do not divide d_model = {self.d_model} evenly")
        if self.act not in KNOWN:
            raise CheckpointError(f"config: activation {self.act!r} is unknown", USE)

    @classmethod
    def from_hf(cls, hf: Mapping[str, Any]) -> Self:
        refuse_others(hf, FIXED)
        act = hf.get("activation_function", "gelu_new")
        if act not in ACTIVATIONS:
            raise CheckpointError(f"config.json: activation_function {act!r} is not supported", USE)
        found = {"layer_norm_epsilon": 1e-5, **hf, "activation_function": ACTIVATIONS[act].stored_as[0]}
        found["n_inner"] = hf.get("n_inner") or 4 * hf.get("n_embd", 0)  # what is missing is named below
        return cls(**{ours: found[theirs] for theirs, ours in cls.stored_as.items()})

    def to_hf(self, start_id: int) -> dict[str, Any]:
        dropout = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": self.model_type,
            **{theirs: getattr(self, ours) for theirs, ours in self.stored_as.items()},
            "tie_word_embeddings": True,
            "bos_token_id": start_id,
            "eos_token_id": start_id,
            **dropout,
        }
