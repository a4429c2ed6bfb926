"""The map: the whole network as one stream with branches, drawn from the graph; it shows where you are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from app.panels.map.links import NARROW_HEADS, MapLinks
from app.render.tokens import token_html
from app.request.state import State
from model.arch.base import ATTENTION, Node
from model.runtime.run import Run

# A network with more heads or blocks than these shows the heads of closed blocks in one picture.
MOST_HEADS, MOST_BLOCKS = 12, 16


@dataclass(frozen=True)
class Line:
    """Sites on one line, `of` their common name (ln1); `has_heads` where the cells of the heads follow."""

    of: str
    sites: tuple[Markup, ...]
    has_heads: bool = False
    is_mixed: bool = False  # single sites of different shapes


@dataclass(frozen=True)
class Branch:
    """What leaves the stream and comes back to it. `lines` and `after` (the stream's next stop) of an open block."""

    heads: tuple[Markup, ...]
    feed_forward: tuple[Markup, ...]
    lines: tuple[Line, ...]
    after: tuple[Markup, ...]


@dataclass(frozen=True)
class Block:
    """One block. The open one has its sites and weights; `strip` stands for cells where there are too many."""

    number: int
    is_open: bool
    name: Markup
    strip: Markup
    start: tuple[Markup, ...]
    branches: tuple[Branch, ...]
    weights: tuple[Markup, ...]


@dataclass(frozen=True)
class MapView:
    """All that `map/_map.html` shows. `here` is the site inside its block (attn.qk), "" outside the blocks."""

    first: tuple[Line, ...]
    blocks: tuple[Block, ...]
    last: tuple[Line, ...]
    note: Markup
    here: str
    is_weight: bool
    heads: str  # how many in a block: few, some, many


def map_view(run: Run, state: State) -> MapView:
    """The map with the place that `state.at` lies in. Raises AddressError."""
    links = MapLinks(run, state)
    outside = [node for node in run.model.graph if node.block is None]
    return MapView(
        first=_end(links, [node for node in outside if node.part == "embed"]),
        blocks=tuple(_block(links, n) for n in range(run.model.config.n_layer)),
        last=_end(links, [node for node in outside if node.part != "embed"]),
        note=_note(links),
        here=links.here.site.split(".", 2)[-1] if links.node.block is not None else "",
        is_weight=links.node.is_parameter,
        heads="few" if run.model.config.n_head <= 4 else "some" if run.model.config.n_head <= NARROW_HEADS else "many",
    )


def _note(links: MapLinks) -> Markup:
    """What the cells of the heads show, and what the tints."""
    if links.slopes:
        return Markup("Tint: how long the loss’s slope is there, on a log scale; in heads, that of their mix.")
    if links.weight_at is None:
        return Markup("In each head: its number.")
    run, (query, key) = links.run, links.weight_at
    names = [token_html(run.model.tokenizer, run.tokens[t]) for t in (query, key)]
    unit = ", in %" if run.model.config.n_head > NARROW_HEADS else ""
    return Markup("In each head: its weight from {} to {}{}.").format(*names, unit)


# -- lines of sites


def _lines(links: MapLinks, nodes: list[Node]) -> tuple[Line, ...]:
    """A line for each LayerNorm and each run of sites of one shape; single sites share a line."""
    found: list[Line] = []
    for (part, axes), group in groupby(nodes, key=lambda node: (node.part, not _is_norm(node) and node.axes)):
        sites = tuple(links.site(node) for node in group)
        of = part if part.startswith("ln") else ""
        if len(sites) == 1 and found and len(found[-1].sites) < 2 + found[-1].is_mixed:
            found[-1] = Line("", (*found[-1].sites, *sites), is_mixed=True)
        else:
            found.append(Line(of, sites, has_heads=axes == ATTENTION))
    return tuple(found)


def _is_norm(node: Node) -> bool:
    return node.part.startswith("ln")


def _end(links: MapLinks, nodes: list[Node]) -> tuple[Line, ...]:
    """What lies before or after the blocks, its parameters last."""
    sites = _lines(links, [node for node in nodes if not node.is_parameter])
    return (*sites, Line("weights", _weights(links, nodes)))


def _weights(links: MapLinks, nodes: list[Node]) -> tuple[Markup, ...]:
    """The parameters among some nodes. LayerNorms' w and b say whose they are."""
    return tuple(links.site(node, node.heading) for node in nodes if node.is_parameter)


# -- blocks


def _block(links: MapLinks, n: int) -> Block:
    config = links.run.model.config
    is_open = links.node.block == n
    is_small = config.n_head <= MOST_HEADS and config.n_layer <= MOST_BLOCKS
    nodes = [node for node in links.run.model.graph if node.block == n]
    pattern = next(node for node in nodes if node.short == "pattern")
    return Block(
        number=n,
        is_open=is_open,
        name=links.block(n),
        strip=Markup("") if is_open or is_small else links.strip(pattern),
        start=(links.site(nodes[0]),) if is_open else (),
        branches=_branches(links, nodes, is_open) if is_open or is_small else (),
        weights=_weights(links, nodes) if is_open else (),
    )


def _branches(links: MapLinks, nodes: list[Node], is_open: bool) -> tuple[Branch, ...]:
    """The sites between two stops of the stream make one branch."""
    branches: list[Branch] = []
    pending: list[Node] = []
    for node in nodes:
        if node.part == "stream" and pending:
            branches.append(_branch(links, pending, node, is_open))
            pending = []
        elif node.part != "stream" and not node.is_parameter:
            pending.append(node)
    return tuple(branches)


def _branch(links: MapLinks, nodes: list[Node], after: Node, is_open: bool) -> Branch:
    by_name = {node.short: node for node in nodes}
    return Branch(
        heads=links.heads(by_name["pattern"]) if "pattern" in by_name else (),
        feed_forward=(links.site(by_name["post"], "feed-forward", "cell"),) if "post" in by_name else (),
        lines=_lines(links, nodes) if is_open else (),
        after=(links.site(after),) if is_open else (),
    )
