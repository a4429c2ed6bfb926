"""What describes an architecture: its named tensors, and later the architecture itself."""

from __future__ import annotations

from dataclasses import dataclass

from model.ops.base import Op


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
