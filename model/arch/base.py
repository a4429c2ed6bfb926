"""What a network is made of, whatever its architecture: axes, named tensors, and the sizes that every config has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from model.errors import CheckpointError
from model.ops.op import Op, View


@dataclass(frozen=True)
class Axis:
    """What a dimension of a tensor runs over; `is_text` where that is the positions of a text."""

    name: str
    is_text: bool = False


AXES = {
    axis.name: axis
    for axis in (
        Axis("pos", is_text=True),
        Axis("query", is_text=True),
        Axis("key", is_text=True),
        Axis("head"),
        Axis("kv_head"),
        Axis("d_head"),
        Axis("d_model"),
        Axis("d_mlp"),
        Axis("d_vocab"),
        Axis("n_ctx"),
    )
}


@dataclass(frozen=True)
class Node:
    """One named tensor. `axes` name its dimensions; `part` is where the map shows it (embed, ln1, attn, …)."""

    name: str
    axes: tuple[str, ...]
    op: Op
    title: str
    part: str
    block: int | None = None
    is_parameter: bool = False

    @property
    def short(self) -> str:
        """The last piece of the name: `qk` of `blocks.2.attn.qk`."""
        return self.name.rsplit(".", 1)[-1]

    @property
    def is_view(self) -> bool:
        """Whether this is another reading of numbers that the network has: see `model.ops.base.View`."""
        return isinstance(self.op, View)


@dataclass(frozen=True)
class Config:
    """Sizes that every architecture has; each adds its own.

    `adds` is False in a what-if alone: blocks then put what they found in place of their row instead of adding it.
    """

    model_type: ClassVar[str]  # as in config.json

    n_layer: int
    n_head: int
    d_model: int
    d_mlp: int
    d_vocab: int
    n_ctx: int
    act: str = "gelu_new"  # the feed-forward network's activation
    eps: float = 1e-5
    adds: bool = True

    def __post_init__(self) -> None:
        for name in ("n_layer", "n_head", "d_model", "d_mlp", "d_vocab", "n_ctx"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise CheckpointError(f"config: {name} is {size!r}, but must be a whole number of at least 1")

    @property
    def d_head(self) -> int:
        """Numbers of one head's query, key and value. The heads share d_model unless a config says otherwise."""
        return self.d_model // self.n_head

    @property
    def n_kv_head(self) -> int:
        """Heads that have keys and values of their own; each query head reads one of them."""
        return self.n_head

    @classmethod
    def from_hf(cls, hf: Mapping[str, Any]) -> Self:
        """Read a Hugging Face `config.json`; a setting that would change the arithmetic is refused by name."""
        raise NotImplementedError

    def to_hf(self, start_id: int) -> dict[str, Any]:
        """The `config.json` that transformers reads back as the same network; `start_id` is the start token's id."""
        raise NotImplementedError


def refuse_others(hf: Mapping[str, Any], only: Mapping[str, Any]) -> None:
    """Raise CheckpointError where a setting has another value than the only one that the network computes."""
    for name, value in only.items():
        if hf.get(name, value) != value:
            raise CheckpointError(f"config.json: {name} = {hf[name]!r} is not supported, only {value!r}")
