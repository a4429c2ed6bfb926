"""Where a reader stands, and the same place in another tensor: the query of a pattern is the position of a stream."""

from __future__ import annotations

from model.address.parser import parse
from model.address.trees import Address, Calc, Index, addresses
from model.arch.base import ATTENTION, Node
from model.runtime.run import Run


def default_address(run: Run) -> str:
    """What a page shows where no address is asked for: the target's probability."""
    return f"probs[{run.n_pos - 1},{run.target}]"


def chosen(run: Run, at: str) -> Address:
    """The checked address a page shows: of a `calc(…)`, its first operand. Raises AddressError."""
    found = parse(at)
    if isinstance(found, Calc):
        found = next(addresses(found), Address("loss"))
    return run.check(found)


def places(run: Run, address: Address) -> dict[str, int]:
    """Axis -> the one place chosen on it. Axes that are sliced say nothing."""
    node = run.model.graph[address.site]
    found = {axis: i for axis, i in zip(node.axes, address.index, strict=False) if isinstance(i, int)}
    if found.get("n_ctx", run.n_pos) < run.n_pos:
        found = {"pos": found["n_ctx"], **found}
    if node.axes == ATTENTION and "query" in found:
        found = {"pos": found["query"], **found}
    if node.is_key_side and "pos" in found:
        return {"key": found["pos"], **found}
    if "pos" in found:
        return {"query": found["pos"], **found}
    return found


def moved(run: Run, here: Address, site: str) -> str:
    """The address in `site` at the same place as `here`: `:` on axes where `here` says nothing, bare if on all.

    Of a tensor of heads a matrix is shown, so a place without a head goes to head 0.
    """
    known, node = places(run, here), run.model.graph[site]
    if node.is_key_side and "key" in known:
        known["pos"] = known["key"]
    if site == "W_E" and "pos" in known:
        known.setdefault("d_vocab", run.tokens[known["pos"]])
    if "pos" in known:
        known.setdefault("n_ctx", known["pos"])
    if len(node.axes) == 3 and known.keys() & set(node.axes):
        known.setdefault("head", 0)
    index = tuple(_fitting(known.get(axis), run.size(axis)) for axis in node.axes)
    return str(Address(site, index if any(isinstance(i, int) for i in index) else (), _quantity(here, node)))


def _quantity(here: Address, node: Node) -> str:
    """Slopes lead to slopes, steps to the same step; token ids have neither, AdamW's averages only weights have."""
    if node.name == "tokens":
        return ""
    return f"step({here.step})" if here.kind in ("m", "v") and not node.is_parameter else here.quantity


def _fitting(i: int | None, size: int) -> Index:
    return i if i is not None and i < size else slice(None)
