"""One sentence through one network: what was captured, and everything that follows from it.

A Run never changes. Sites that no hook captured are derived on demand by their op and kept.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.address import Address, Calc, Index, parse
from model.backward import on_demand, site_gradients
from model.errors import AddressError
from model.ops.base import Column, Computed, Constant, Difference, Floats, Inverse, Ref

if TYPE_CHECKING:
    from model.explain import Explanation, Order
    from model.language_model import LanguageModel
    from model.sample import Choice

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
        self._slopes: dict[str, Tensor] = {}
        self._lock = threading.RLock()
        self.target_is_own = target is None
        self.target = self.largest_logit(self.n_pos - 1) if target is None else target

    @property
    def n_pos(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes held by captured and derived sites and their gradients (weights not counted)."""
        values = [t for name, t in self._tensors.items() if name not in self._weights]
        return sum(t.numel() * t.element_size() for t in (*values, *self._slopes.values()))

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

    def gradient(self, site: str) -> Tensor:
        """∂loss/∂site for a whole site, float32, axes as in the graph. The first call computes all captured ones."""
        with self._lock:
            if not self._slopes:
                self._slopes = site_gradients(self)
            found = self._slopes.get(site)
            if found is None:
                whole = tuple(slice(None, None) for _ in self.shape(site))
                found = self._slopes[site] = on_demand(self, site, whole)
        return found

    def gradient_at(self, name: str, index: tuple[Index, ...]) -> Tensor:
        """∂loss/∂name[index] of a site or parameter; of a parameter only the part asked for is computed."""
        if self.model.graph[name].is_parameter:
            with torch.no_grad():
                return on_demand(self, name, index)
        return self.gradient(name)[index]

    def numbers(self, column: Column) -> Floats:
        """The values of one column of factors in float64, one per term (or one for all)."""
        if isinstance(column, (Constant, Computed)):
            return np.asarray(column.value, dtype=np.float64)
        if isinstance(column, Inverse):
            return 1 / self.numbers(column.of)
        if isinstance(column, Difference):
            return self.numbers(column.minuend) - self.numbers(column.subtrahend)
        if column.quantity == "grad":
            return np.asarray(self._slopes_at(column), dtype=np.float64)
        return np.asarray(self.tensor(column.site).numpy()[column.index], dtype=np.float64)

    def _slopes_at(self, column: Ref) -> NDArray[np.float32]:
        """Gradients at a column's places; of a parameter, the smallest slice that holds them is computed."""
        if not self.model.graph[column.site].is_parameter:
            found: NDArray[np.float32] = self.gradient(column.site).numpy()[column.index]
            return found
        index: tuple[Any, ...] = column.index
        bounds = tuple(i if isinstance(i, slice) else slice(int(np.min(i)), int(np.max(i)) + 1) for i in index)
        inside = tuple(slice(None) if isinstance(i, slice) else i - b.start for i, b in zip(index, bounds, strict=True))
        found = self.gradient_at(column.site, bounds).numpy()[inside]
        return found

    def size(self, axis: str) -> int:
        return self.model.graph.size(axis, self.n_pos)

    def shape(self, site: str) -> tuple[int, ...]:
        return self.model.graph.shape(site, self.n_pos)

    @property
    def scored(self) -> range:
        """The positions whose loss counts: the last one, or all that have a next token in the text."""
        return range(self.n_pos - 1) if self.is_sequence else range(self.n_pos - 1, self.n_pos)

    def underflows(self, t: int) -> bool:
        """True where the probability that position `t` is scored on is too small for float32 to keep its digits."""
        return bool(self.tensor("probs")[t, self.next_token(t)] < torch.finfo(torch.float32).tiny)

    def reads_probability(self, t: int) -> bool:
        """True where the loss reads `probs` at position `t`; `reads_log_probability`, where it reads `log_probs`."""
        return t in self.scored and not self.underflows(t)

    def reads_log_probability(self, t: int) -> bool:
        return t in self.scored and self.underflows(t)

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

    def next(
        self,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int = 0,
        t: int | None = None,
        position: int | None = None,
    ) -> Choice:
        """The choice of the token after position `t` (the last), laid open: see `model.sample`.

        `position` is the token's place in the whole text where this run's begins later than that.
        """
        from model.sample import Settings, check_whole, choose

        t = self.n_pos - 1 if t is None else t
        check_whole("t", t, self.n_pos - 1, "Positions are counted from 0.")
        settings = Settings(temperature, top_k, top_p, seed)
        return choose(self.tensor("logits")[t].numpy(), settings, t + 1 if position is None else position, t)

    # -- addresses

    def check(self, address: Address) -> Address:
        """The address with every index checked against this run. Axes left out at the end mean all of them."""
        shape = self.shape(address.site)
        axes = self.model.graph[address.site].axes
        if address.quantity.startswith("step"):
            raise AddressError(
                f"“.{address.quantity}” of {address.site} is not available: learning steps are not computed yet.",
                "Leave the suffix out to see the value, or write .grad to see the slope.",
            )
        if address.quantity == "grad" and address.site == "tokens":
            raise AddressError(
                "A token id has no gradient: it is an address in the vocabulary, not a quantity that can be nudged.",
                "The row it picks has one: embed[0,0].grad.",
            )
        if len(address.index) > len(shape):
            count = f"{len(shape)} indices ({', '.join(axes)})" if shape else "no index"
            raise AddressError(f"{address.site} takes {count}, not {len(address.index)}.", self._example(address.site))
        for i, size, axis in zip(address.index, shape, axes, strict=False):
            self._check_index(address, i, size, axis)
        whole = tuple(slice(None, None) for _ in shape[len(address.index) :])
        return replace(address, index=address.index + whole)

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
        if address.quantity == "grad":
            return self.gradient_at(address.site, address.index).numpy().copy()
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
