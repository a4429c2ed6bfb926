"""How steep the loss is at every site: the length of its slope, block by block."""

from __future__ import annotations

import math
from itertools import chain
from weakref import WeakKeyDictionary

from markupsafe import Markup

from app.render import numbers
from app.render.curves import LogAxis
from app.render.heat import STEPS
from app.render.links import Links
from app.render.templating import Context
from app.request.state import State
from model import Run

# Which sites of a block are shown, with their words.
SHOWN = (
    ("resid_pre", "stream in"),
    ("attn.z", "heads’ mixes"),
    ("resid_mid", "stream after attention"),
    ("mlp.post", "neurons"),
)


def slope_sizes(run: Run) -> dict[str, float]:
    """‖∂loss/∂site‖ for every site of an unchanged run (token ids have no slope)."""
    return {node.name: float(run.gradient(node.name).norm()) for node in run.model.graph.sites if node.name != "tokens"}


class SlopeTints:
    """A heat step for the slope's length at every site and in every head, on a log scale from shortest to longest."""

    def __init__(self, run: Run) -> None:
        self._sizes = slope_sizes(run)
        self._heads = {
            node.block: run.gradient(node.name).norm(dim=(0, 2)).tolist()
            for node in run.model.graph.sites
            if node.short == "z"
        }
        sizes = chain(self._sizes.values(), *self._heads.values())
        logs = [math.log10(size) for size in sizes if 0 < size < math.inf]
        self._low, self._high = (min(logs), max(logs)) if logs else (0.0, 0.0)

    @classmethod
    def of(cls, run: Run) -> SlopeTints:
        """Made once for each run."""
        tints = _tints.get(run)
        if tints is None:
            tints = _tints[run] = cls(run)
        return tints

    def site(self, name: str) -> int:
        """From 1 to 8; 0 where there is no slope."""
        return self._step(self._sizes.get(name, 0.0))

    def head(self, block: int | None, head: int) -> int:
        """By the slope of the head's mix."""
        return self._step(self._heads[block][head])

    def _step(self, size: float) -> int:
        if not 0 < size < math.inf or self._high <= self._low:
            return 0
        return 1 + round((STEPS - 1) * (math.log10(size) - self._low) / (self._high - self._low))


_tints: WeakKeyDictionary[Run, SlopeTints] = WeakKeyDictionary()


def slopes_view(run: Run, state: State) -> Context:
    """The slopes' lengths from the first block to the logits, as rows: block, words, site, length; `says` compares."""
    last = run.model.config.n_layer - 1
    sites = [("embeddings", "sum of both", "blocks.0.resid_pre")]
    for n in range(last + 1):
        sites += [(f"block {n}", words, f"blocks.{n}.{site}") for site, words in (SHOWN if n else SHOWN[1:])]
    sites += [("after the blocks", "stream out", f"blocks.{last}.resid_post"), ("after the blocks", "logits", "logits")]
    sizes = {site: float(run.gradient(site).norm()) for _, _, site in sites}
    links = Links(state)
    return {
        "axis": LogAxis.over(list(sizes.values())),
        "links": links,
        "length": length,
        "rows": [(*row, sizes[row[2]]) for row in sites],
        "says": _says(sizes, links, last),
    }


def _says(sizes: dict[str, float], links: Links, last: int) -> Markup:
    enters, leaves = "blocks.0.resid_pre", f"blocks.{last}.resid_post"
    if not (sizes[enters] > 0 and sizes[leaves] > 0):
        return Markup("Some of these slopes are 0 or no numbers here.")
    ratio = sizes[enters] / sizes[leaves]
    steeper, flatter = (enters, leaves) if ratio >= 1 else (leaves, enters)
    at = f"calc(sqrt(sum({steeper}.grad*{steeper}.grad))/sqrt(sum({flatter}.grad*{flatter}.grad)))"
    times = links.number(at, numbers.full(max(ratio, 1 / ratio), 3), css="num live")
    return Markup("Where the stream enters, its slope is {} times {} than where it leaves block {}.").format(
        times, "longer" if ratio >= 1 else "shorter", last
    )


def length(at: str) -> str:
    """The address of the length of all numbers at `at` together."""
    return f"calc(sqrt(sum({at}*{at})))"
