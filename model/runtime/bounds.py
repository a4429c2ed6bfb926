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
    last = ",".join(str(size - 1) for size in shape)
    example = f"The last one is {address.site}[{last}]." if last else f"Write {address.site} alone."
    if len(address.index) > len(shape):
        count = f"{len(shape)} indices ({', '.join(axes)})" if shape else "no index"
        raise AddressError(f"{address.site} takes {count}, not {len(address.index)}.", example)
    for i, size, axis in zip(address.index, shape, axes, strict=False):
        if fault := _fault(address, i, size, axis):
            raise AddressError(fault, example)
    return replace(address, index=address.index + (slice(None),) * (len(shape) - len(address.index)))


def _fault(address: Address, i: Index, size: int, axis: str) -> str:
    """What is wrong with an index on an axis of that size; "" if nothing."""
    places = [i] if isinstance(i, int) else [p for p in (i.start, i.stop) if p is not None]
    most = size - 1 if isinstance(i, int) else size
    if beyond := [place for place in places if place > most]:
        return f"Index {beyond[0]} of {address} is out of range: axis {axis} runs from 0 to {size - 1}."
    if isinstance(i, slice) and i.start is not None and i.stop is not None and i.start >= i.stop:
        return f"The slice {i.start}:{i.stop} in {address} is empty."
    return ""
