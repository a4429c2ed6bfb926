"""Whether the indices of an address fit a run."""

from __future__ import annotations

from dataclasses import replace

from model.address.trees import Address, Index
from model.arch.graph import Graph
from model.errors import AddressError


def within_bounds(graph: Graph, address: Address, n_pos: int) -> Address:
    """The address with every index checked against a run of `n_pos` tokens; axes left out at the end mean all of them.

    Raises AddressError.
    """
    shape, axes = graph.shape(address.site, n_pos), graph[address.site].axes
    example = last_one(address.site, shape)
    if len(address.index) > len(shape):
        count = f"{len(shape)} indices ({', '.join(axes)})" if shape else "no index"
        raise AddressError(f"{address.site} takes {count}, not {len(address.index)}.", example)
    for i, size, axis in zip(address.index, shape, axes, strict=False):
        if fault := _fault(address, i, size, axis):
            raise AddressError(fault, example)
    whole = tuple(slice(None, None) for _ in shape[len(address.index) :])
    return replace(address, index=address.index + whole)


def _fault(address: Address, i: Index, size: int, axis: str) -> str:
    """What is wrong with an index on an axis of that size; "" if nothing."""
    places = [i] if isinstance(i, int) else [p for p in (i.start, i.stop) if p is not None]
    most = size - 1 if isinstance(i, int) else size
    for place in places:
        if place > most:
            return f"Index {place} of {address} is out of range: axis {axis} runs from 0 to {size - 1}."
    if isinstance(i, slice) and i.start is not None and i.stop is not None and i.start >= i.stop:
        return f"The slice {i.start}:{i.stop} in {address} is empty."
    return ""


def last_one(site: str, shape: tuple[int, ...]) -> str:
    """An address of the site that is right."""
    last = ",".join(str(size - 1) for size in shape)
    return f"The last one is {site}[{last}]." if last else f"Write {site} alone."
