"""The graph: every site and parameter of a network in the order they are computed, each with its axes and its op.

Built from the config alone. Capture, the explorer's map, every explanation and "used by" come from this one table.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from model.arch.base import AXES, Config, Node, Stage
from model.arch.registry import architecture_of
from model.errors import UnknownSite
from model.ops.linear import View
from model.ops.op import Op


class Graph:
    """Nodes by name, in order of computation; parameters come just before the site that first reads them."""

    def __init__(self, config: Config) -> None:
        architecture = architecture_of(config)
        self.config = config
        self._sizes = architecture.sizes(config)
        self.nodes: dict[str, Node] = {node.name: node for node in architecture.nodes(config)}
        self._consumers: dict[str, list[Node]] = {name: [] for name in self.nodes}
        self._gradient_rules: dict[str, list[tuple[Node, Op]]] = {name: [] for name in self.nodes}
        self._rows: dict[tuple[str, str], list[tuple[Stage, Node]]] = {}
        for node in self.nodes.values():
            for source in node.op.reads:
                self._consumers[source].append(node)
            for source in node.op.grad_reads:
                self._gradient_rules[source].append((node, node.op))
            if isinstance(node.op, View):
                self._gradient_rules[node.name].append((self.nodes[node.op.whole.site], node.op))
            for stage in node.stages:
                self._rows.setdefault((stage.row, _front(node, stage)), []).append((stage, node))

    def __getitem__(self, name: str) -> Node:
        """The node of that name. Raises AddressError that names the nearest thing that exists."""
        try:
            return self.nodes[name]
        except KeyError:
            raise UnknownSite(f"There is no site or parameter “{name}”.", self._nearest(name)) from None

    def __contains__(self, name: str) -> bool:
        return name in self.nodes

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    @property
    def sites(self) -> list[Node]:
        return [node for node in self if not node.is_parameter]

    @property
    def parameters(self) -> list[Node]:
        return [node for node in self if node.is_parameter]

    def consumers(self, name: str) -> list[Node]:
        """The nodes whose ops read `name`."""
        return self._consumers[name]

    def gradient_consumers(self, name: str) -> list[Node]:
        """The nodes that hand a slope back to `name`: its consumers, but for softmax's inner steps and views."""
        return [node for node, _ in self._gradient_rules[name]]

    def gradient_rules(self, name: str) -> list[tuple[Node, Op]]:
        """The nodes that hand a slope back to `name`, each with the op whose backward rule says how: a view's own."""
        return self._gradient_rules[name]

    def row(self, node: Node) -> list[tuple[Stage, Node]]:
        """The row of steps that a node is one of; none for one that stands alone."""
        return self._rows[node.stages[0].row, _front(node, node.stages[0])] if node.stages else []

    def onward(self, node: Node) -> list[Node]:
        """What a node's numbers become one by one: the sites shown beside it, column by column."""
        following = next((n for n in self._consumers[node.name] if n.onward and n.axes == node.axes), None)
        return [following, *self.onward(following)] if following else []

    def with_sizes(self, words: str) -> str:
        """Words in which {d_head} stands for the size of that axis."""
        return words.format(**self._sizes)

    def use(self, node: Node, consumer: Node) -> str:
        """What a consumer uses a parameter for that has several uses; "" for all other nodes."""
        if node.is_view and node.is_parameter:
            return "the same number"
        return consumer.use if node.is_parameter and len(self._gradient_rules[node.name]) > 1 else ""

    def shape(self, name: str, n_pos: int) -> tuple[int, ...]:
        """Sizes of the node's axes in a run of `n_pos` tokens."""
        return tuple(self.size(axis, n_pos) for axis in self[name].axes)

    def size(self, axis: str, n_pos: int) -> int:
        """How many places an axis has in a run of `n_pos` tokens."""
        return n_pos if AXES[axis].is_text else self._sizes[axis]

    def _nearest(self, name: str) -> str:
        if name.startswith("blocks.") and name.split(".")[1].isdecimal():
            block = int(name.split(".")[1])
            if block >= self.config.n_layer:
                last = self.config.n_layer - 1
                return f"This model's blocks are 0 to {last}, as in blocks.{last}.attn.q."
        if close := difflib.get_close_matches(name, self.nodes, n=1, cutoff=0.6):
            return f"Did you mean {close[0]}?"
        shorts = {node.short: full for full, node in reversed(self.nodes.items())}  # the first block's stays
        if close := difflib.get_close_matches(name.rpartition(".")[2], shorts, n=1, cutoff=0.6):
            return f"Did you mean {shorts[close[0]]}?"
        return "Names are as in blocks.0.attn.q, ln_final.out or logits."


def _front(node: Node, stage: Stage) -> str:
    return node.prefix if stage.prefix is None else stage.prefix
