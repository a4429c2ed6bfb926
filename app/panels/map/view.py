"""The map: the whole network as one stream with branches, drawn from the graph; it shows where you are."""

from __future__ import annotations

from itertools import groupby

from markupsafe import Markup

from app.panels.map.links import NARROW_HEADS, MapLinks
from app.render.templating import Context
from app.render.tokens import token_html
from app.request.state import State
from model.arch.base import ATTENTION, Node
from model.runtime.run import Run

# A network with more heads or blocks than these shows the heads of closed blocks in one picture.
MOST_HEADS, MOST_BLOCKS = 12, 16


def map_view(run: Run, state: State) -> Context:
    """The map with the place that `state.at` lies in; `heads`: how many in a block. Raises AddressError."""
    links, n_head = MapLinks(run, state), run.model.config.n_head
    outside = [node for node in run.model.graph if node.block is None]
    return {
        "first": _end(links, [node for node in outside if node.part == "embed"]),
        "blocks": [_block(links, n) for n in range(run.model.config.n_layer)],
        "last": _end(links, [node for node in outside if node.part != "embed"]),
        "note": _note(links),
        "is_weight": links.node.is_parameter,
        "heads": "few" if n_head <= 4 else "some" if n_head <= NARROW_HEADS else "many",
    }


def _note(links: MapLinks) -> Markup:
    """What the cells of the heads show, and what the tints."""
    if links.slopes:
        return Markup("Tint: how long the loss’s slope is there, on a log scale; in heads, that of their mix.")
    if links.weight_at is None:
        return Markup("In each head: its number.")
    run = links.run
    names = [token_html(run.model.tokenizer, run.tokens[t]) for t in links.weight_at]
    unit = ", in %" if run.model.config.n_head > NARROW_HEADS else ""
    return Markup("In each head: its weight from {} to {}{}.").format(*names, unit)


# -- lines of sites


def _lines(links: MapLinks, nodes: list[Node]) -> list[Context]:
    """A line for each LayerNorm (`of` it) and each run of sites of one shape; up to three single sites share a line.

    `has_heads` where the cells of the heads follow.
    """
    lines: list[Context] = []
    for (part, axes), group in groupby(nodes, key=lambda node: (node.part, not _is_norm(node) and node.axes)):
        sites = [links.site(node) for node in group]
        if len(sites) == 1 and lines and len(lines[-1]["sites"]) < 2 + lines[-1]["is_mixed"]:
            lines[-1] = {"of": "", "sites": lines[-1]["sites"] + sites, "has_heads": False, "is_mixed": True}
        else:
            of = part if part.startswith("ln") else ""
            lines.append({"of": of, "sites": sites, "has_heads": axes == ATTENTION, "is_mixed": False})
    return lines


def _is_norm(node: Node) -> bool:
    return node.part.startswith("ln")


def _end(links: MapLinks, nodes: list[Node]) -> list[Context]:
    """What lies before or after the blocks, its parameters last."""
    sites = _lines(links, [node for node in nodes if not node.is_parameter])
    return [*sites, {"of": "weights", "sites": _weights(links, nodes)}]


def _weights(links: MapLinks, nodes: list[Node]) -> list[Markup]:
    """The parameters among some nodes. LayerNorms' w and b say whose they are."""
    return [links.site(node, node.heading) for node in nodes if node.is_parameter]


# -- blocks


def _block(links: MapLinks, n: int) -> Context:
    """One block. The open one has its sites and weights; `strip` stands for cells where there are too many."""
    config = links.run.model.config
    is_open = links.node.block == n
    is_small = config.n_head <= MOST_HEADS and config.n_layer <= MOST_BLOCKS
    nodes = [node for node in links.run.model.graph if node.block == n]
    pattern = next(node for node in nodes if node.short == "pattern")
    return {
        "number": n,
        "is_open": is_open,
        "name": links.block(n),
        "strip": "" if is_open or is_small else links.strip(pattern),
        "start": links.site(nodes[0]) if is_open else "",
        "branches": _branches(links, nodes, is_open) if is_open or is_small else [],
        "weights": _weights(links, nodes) if is_open else [],
    }


def _branches(links: MapLinks, nodes: list[Node], is_open: bool) -> list[Context]:
    """The sites between two stops of the stream make one branch."""
    branches: list[Context] = []
    pending: list[Node] = []
    for node in nodes:
        if node.part == "stream" and pending:
            branches.append(_branch(links, pending, node, is_open))
            pending = []
        elif node.part != "stream" and not node.is_parameter:
            pending.append(node)
    return branches


def _branch(links: MapLinks, nodes: list[Node], stop: Node, is_open: bool) -> Context:
    """What leaves the stream and comes back to it, before its next `stop`; `lines` of an open block's sites."""
    by_name = {node.short: node for node in nodes}
    return {
        "heads": links.heads(by_name["pattern"]) if "pattern" in by_name else [],
        "feed_forward": links.site(by_name["post"], "feed-forward", "cell") if "post" in by_name else "",
        "lines": _lines(links, nodes) if is_open else [],
        "stop": links.site(stop) if is_open else "",
    }
