"""What a number's tensor stands beside: the steps before and after it, each a link that keeps the place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup

from app.render.links import Links
from app.render.places import moved
from model.address.parser import Address
from model.arch.base import Node
from model.runtime.run import Run


@dataclass(frozen=True)
class StageLink:
    """One step: the sign before it (“→”, “+” …) and its link."""

    sign: str
    link: Markup


def stages(run: Run, address: Address, cells: Links) -> tuple[str, tuple[StageLink, ...]]:
    """The name of the row that the site is in and its steps; ("", ()) for a site that stands alone."""
    graph = run.model.graph
    row = graph.row(graph[address.site])
    found = tuple(
        StageLink(stage.sign, _link(run, address, cells, node.name, graph.with_sizes(stage.words)))
        for stage, node in row
    )
    return row[0][0].row if row else "", found


def _link(run: Run, address: Address, cells: Links, site: str, words: str) -> Markup:
    is_here = site == address.site
    at = str(address) if is_here else moved(run, address, site)
    return cells.number(at, words, css="to", current=is_here)


def onward(run: Run, node: Node) -> list[tuple[str, str]]:
    """Sites of the same shape that a row of this site goes on to, with words in HTML."""
    graph = run.model.graph
    return [(after.name, _raised(graph.with_sizes(after.onward))) for after in graph.onward(node)]


def _raised(words: str) -> str:
    return re.sub(r"\^\((.*?)\)", r"<sup>\1</sup>", words)
