"""What the rest of the project asks of an architecture. Each is one object of this class, in a folder of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, Generic, TypeVar

from torch import Tensor

from model.arch.base import Config, Node
from model.arch.network import Network

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Stored:
    """How a checkpoint's file names an architecture's tensors.

    names     the file's name -> the network's parameter, for every parameter
    prefix    what may stand in front of a name in the file, and does in what we write
    repeated  the file's name -> the network's parameter that it holds once more, where it is there at all
    ignored   names in the file that are no parameters
    """

    names: Mapping[str, str]
    prefix: str = ""
    repeated: Mapping[str, str] = field(default_factory=dict)
    ignored: re.Pattern[str] | None = None


@dataclass(frozen=True)
class Architecture(Generic[C]):
    """One kind of network. What differs between kinds is said here and nowhere else.

    model_type     as in a Hugging Face config.json
    name           as its authors write it
    config         reads and writes config.json
    nodes          every site and parameter in the order they are computed
    network        the network itself, its weights not yet set
    stored         how a checkpoint's file names the parameters
    views          a parameter of the network under the graph's names and axes, as views: W_QKV holds W_Q, W_K and W_V
    stored_under   the network's name of the parameter that holds one of the graph's
    head_constant  the parameters whose product a head adds at every position whatever it reads, by block: b_V and W_O
    is_whole       whether its checkpoints can be opened: not while its backward pass is missing
    """

    model_type: str
    name: str
    config: type[C]
    nodes: Callable[[C], Iterator[Node]]
    network: Callable[[C], Network]
    stored: Callable[[C], Stored]
    views: Callable[[str, Tensor, C], dict[str, Tensor]]
    stored_under: Callable[[str], str]
    head_constant: Callable[[C, int], tuple[str, str] | None]
    is_whole: bool = True

    def sizes(self, config: C) -> dict[str, int]:
        """How many places each axis has, but for those that run over a text."""
        c = config
        return {
            "head": c.n_head,
            "kv_head": c.n_kv_head,
            "d_head": c.d_head,
            "d_model": c.d_model,
            "d_mlp": c.d_mlp,
            "d_vocab": c.d_vocab,
            "n_ctx": c.n_ctx,
        }

    def n_parameters(self, config: C) -> int:
        """All learned numbers of a network of this shape, each counted once, whatever its name."""
        return _count(self, config)


@lru_cache(maxsize=64)
def _count(architecture: Architecture[Any], config: Config) -> int:
    sizes = architecture.sizes(config)
    learned = (node for node in architecture.nodes(config) if node.is_parameter and not node.is_view)
    return sum(prod(sizes[axis] for axis in node.axes) for node in learned)
