"""One sentence through one network: what was captured, and everything that follows from it.

A Run never changes. Sites that no hook captured are derived on demand by their op and kept.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.address import Address, Calc, Index, parse
from model.errors import AddressError
from model.ops.base import Column, Computed, Constant, Difference, Floats

if TYPE_CHECKING:
    from model.explain import Explanation, Order
    from model.language_model import LanguageModel

SEQUENCE = "sequence"


class Run:
    """Values of every site for `tokens`.

    `target` is the token id whose loss the last position carries; `is_sequence` makes the loss the mean over the
    text's own next tokens; `target_is_own` says that the target is the model's own first guess.
    """

    def __init__(
        self,
        model: LanguageModel,
        text: str,
        tokens: Sequence[int],
        captured: dict[str, Tensor],
        *,
        bos: bool,
        target: int | None,
        is_sequence: bool,
    ) -> None:
        self.model, self.text, self.tokens, self.bos = model, text, tuple(tokens), bos
        self.token_tensor = torch.tensor(self.tokens)
        self.is_sequence = is_sequence
        self._tensors = captured
        self._lock = threading.RLock()
        self.target_is_own = target is None
        self.target = self.largest_logit(self.n_pos - 1) if target is None else target

    @property
    def n_pos(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes held by captured and derived sites (weights not counted)."""
        return sum(t.numel() * t.element_size() for name, t in self._tensors.items() if name not in self._weights)

    @property
    def _weights(self) -> set[str]:
        return {node.name for node in self.model.graph.parameters}

    # -- values

    def tensor(self, site: str) -> Tensor:
        """The whole site or parameter as PyTorch has it: float32, axes as in the graph (tokens: int64)."""
        found = self._tensors.get(site)
        if found is None:
            with self._lock, torch.no_grad():
                found = self._tensors.get(site)
                if found is None:
                    found = self.model.graph[site].op.derive(self)
                    self._tensors[site] = found
        return found

    def numbers(self, column: Column) -> Floats:
        """The values of one column of factors in float64, one per term (or one for all)."""
        if isinstance(column, (Constant, Computed)):
            return np.asarray(column.value, dtype=np.float64)
        if isinstance(column, Difference):
            return self.numbers(column.minuend) - self.numbers(column.subtrahend)
        return np.asarray(self.tensor(column.site).numpy()[column.index], dtype=np.float64)

    def size(self, axis: str) -> int:
        return self.model.graph.size(axis, self.n_pos)

    def shape(self, site: str) -> tuple[int, ...]:
        return self.model.graph.shape(site, self.n_pos)

    def next_token(self, t: int) -> int:
        """What position `t` is scored on: the text's next token, or the target at the last position."""
        return self.tokens[t + 1] if t + 1 < self.n_pos else self.target

    def largest_logit(self, t: int) -> int:
        """The vocabulary entry with the largest logit after position `t` (lowest id on a tie)."""
        return int(np.argmax(self.tensor("logits")[t].numpy()))

    def top(self, n: int, t: int = -1) -> list[tuple[int, float]]:
        """The `n` likeliest next tokens after position `t` as (token id, probability), lowest id first on a tie."""
        p = self.tensor("probs")[t].numpy()
        order = np.argsort(-p, kind="stable")[:n]
        return [(int(v), float(p[v])) for v in order]

    # -- addresses

    def check(self, address: Address) -> Address:
        """The address with every index checked against this run. A bare site of several axes means all of it."""
        shape = self.shape(address.site)
        if address.quantity:
            raise AddressError(
                f"“.{address.quantity}” of {address.site} is not available: gradients and steps are not computed yet.",
                "Leave the suffix out to see the value.",
            )
        if not address.index:
            return address if not shape else Address(address.site, tuple(slice(None) for _ in shape))
        axes = self.model.graph[address.site].axes
        if len(address.index) != len(shape):
            count = f"{len(shape)} indices ({', '.join(axes)})" if shape else "no index"
            raise AddressError(f"{address.site} takes {count}, not {len(address.index)}.", self._example(address.site))
        for i, size, axis in zip(address.index, shape, axes, strict=True):
            self._check_index(address, i, size, axis)
        return address

    def _check_index(self, address: Address, i: Index, size: int, axis: str) -> None:
        places = [i] if isinstance(i, int) else [p for p in (i.start, i.stop) if p is not None]
        allowed = size - 1 if isinstance(i, int) else size
        for place in places:
            if place > allowed:
                raise AddressError(
                    f"Index {place} of {address} is out of range: axis {axis} runs from 0 to {size - 1}.",
                    self._example(address.site),
                )
        if isinstance(i, slice) and i.start is not None and i.stop is not None and i.start >= i.stop:
            raise AddressError(f"The slice {i.start}:{i.stop} in {address} is empty.", self._example(address.site))

    def _example(self, site: str) -> str:
        last = ",".join(str(size - 1) for size in self.shape(site))
        return f"The last one is {site}[{last}]." if last else f"Write {site} alone."

    def values(self, at: str | Address) -> NDArray[Any]:
        """The numbers at an address, slices included: float32 (tokens int64, calc float64), with the sliced axes."""
        address = parse(at) if isinstance(at, str) else at
        if isinstance(address, Calc):
            from model.expression import evaluate

            return np.asarray(evaluate(self, address.tree))
        address = self.check(address)
        return np.array(self.tensor(address.site).numpy()[address.index])

    def __getitem__(self, at: str) -> NDArray[Any]:
        return self.values(at)

    def explain(self, at: str, *, offset: int = 0, limit: int = 20, order: Order = "index") -> Explanation:
        """How the number at one address is made: see `model.explain`."""
        from model.explain import explain

        return explain(self, at, offset=offset, limit=limit, order=order)

    # -- faults

    def first_fault(self) -> str | None:
        """The first site, in order of computation, that holds NaN or ±∞ (masked scores aside), or None."""
        for node in self.model.graph.sites:
            if node.name not in self._tensors or node.short == "scores":
                continue
            if not bool(torch.isfinite(self.tensor(node.name)).all()):
                return node.name
        return None
