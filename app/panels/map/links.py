"""The map's links: each leads to a site, a head or a block at the place where the reader is now."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from app.panels.slopes import SlopeTints
from app.render import numbers
from app.render.heat import Scale, css, picture
from app.render.links import Links
from app.render.places import chosen, moved, places
from app.request.state import State
from model.address.parser import Address
from model.arch.base import ATTENTION, Node
from model.runtime.run import Run

MOST_LINKS = 64  # with more heads than this in all, heads and weights are buttons, which are shorter than links
NARROW_HEADS = 8  # more heads than this in a block leave room for two figures each

WEIGHT = Scale(1.0, 1.0)


class MapLinks:
    """Where the reader is, and the links from there."""

    def __init__(self, run: Run, state: State) -> None:
        self.run, self.here = run, chosen(run, state.at)
        self.node = run.model.graph[self.here.site]
        self.places = places(run, self.here)
        self.links, self.short_links = Links(state), Links(state)
        config = run.model.config
        self.short_links.as_buttons |= config.n_layer * config.n_head > MOST_LINKS
        self.weight_at = self._weight_at()
        has_tints = self.here.quantity == "grad" and not run.patches and not run.is_long
        self.slopes = SlopeTints.of(run) if has_tints else None

    def _weight_at(self) -> tuple[int, int] | None:
        """Query and key of the reader's place, if it is one of attention: heads then show their weights there."""
        if self.run.is_long:  # it would compute every block again for them
            return None
        if self.node.axes == ATTENTION and not self.here.quantity and {"query", "key"} <= self.places.keys():
            return self.places["query"], self.places["key"]
        return None

    def site(self, node: Node, words: str = "", kind: str = "site") -> Markup:
        """A site or parameter at the reader's place."""
        is_here = node.name == self.here.site
        at = str(self.here) if is_here else moved(self.run, self.here, node.name)
        links = self.short_links if node.is_parameter or kind == "cell" else self.links
        tint = css(self.slopes.site(node.name)) if self.slopes else ""
        return links.number(at, words or node.short, css=f"{kind} {tint}".rstrip(), current=is_here and kind == "site")

    def block(self, n: int) -> Markup:
        """The reader's own site in block `n`, so that blocks compare; from outside the blocks its first site."""
        at = self._in_block(n) or moved(self.run, self.here, f"blocks.{n}.resid_pre")
        return self.links.number(str(at), f"block {n}", css="name")

    def _in_block(self, n: int) -> Address | None:
        if self.node.block is None:
            return None
        site = self.here.site.replace(f"blocks.{self.node.block}.", f"blocks.{n}.", 1)
        return Address(site, self.here.index, self.here.quantity)

    def heads(self, pattern: Node) -> list[Markup]:
        """A cell for each head of the block that `pattern` is in."""
        here = self.places.get("head") if pattern.block == self.node.block else None
        weights = self._weights(pattern)
        heads = range(self.run.model.config.n_head)
        if weights is None:
            return [self._numbered(pattern, head, head == here) for head in heads]
        return [self._weighed(pattern, head, float(weights[head]), head == here) for head in heads]

    def strip(self, pattern: Node) -> Markup:
        """The heads' weights as one small picture, for networks with too many heads for cells; else nothing."""
        weights = self._weights(pattern)
        return Markup("") if weights is None else picture(WEIGHT.steps(weights)[None, :], f"heads-{pattern.block}")

    def _weights(self, pattern: Node) -> np.ndarray | None:
        if self.weight_at is None:
            return None
        query, key = self.weight_at
        return self.run.tensor(pattern.name)[:, query, key].numpy()

    def _weighed(self, pattern: Node, head: int, weight: float, is_here: bool) -> Markup:
        assert self.weight_at is not None
        tint = css(int(WEIGHT.steps(np.array([weight]))[0]))
        at = str(Address(pattern.name, (head, *self.weight_at)))
        shown = numbers.compact(weight, is_narrow=self.run.model.config.n_head > NARROW_HEADS)
        return self._cell(at, shown, tint, is_here, f"head {head}: {shown}")

    def _numbered(self, pattern: Node, head: int, is_here: bool) -> Markup:
        """The head's number: leads to the reader's site in that head, if it is one of heads, else to its pattern."""
        at = self._in_block(pattern.block) if "head" in self.node.axes and pattern.block is not None else None
        if at:
            axes = zip(self.node.axes, at.index, strict=True)
            at = Address(at.site, tuple(head if axis == "head" else i for axis, i in axes), at.quantity)
        else:
            at = Address(pattern.name, (head, self.places.get("query", slice(None)), slice(None)), self.here.quantity)
        tint = css(self.slopes.head(pattern.block, head)) if self.slopes else ""
        return self._cell(str(at), str(head), tint, is_here, f"head {head}")

    def _cell(self, at: str, shown: str, tint: str, is_here: bool, label: str) -> Markup:
        """Buttons are many on a page, so they do without a label."""
        links = self.short_links
        label = "" if links.as_buttons else label
        return links.number(at, shown, css=f"cell {tint}".rstrip(), current=is_here, label=label)
