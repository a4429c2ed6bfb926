"""One sentence through one network: what was captured, and everything that follows from it.

A Run never changes. Sites that no hook captured are derived on demand by their op and kept.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.address.parser import Address, Calc, Index, parse
from model.address.patch import MOST_CHANGES, NO_ADDITIONS, Patch, PatchError
from model.arch.base import Node
from model.arch.graph import Graph
from model.errors import AddressError
from model.explain.explain import explain
from model.explain.explanation import Explanation
from model.explain.expression import evaluate
from model.explain.terms import Order, Window
from model.ops.base import Column, Computed, Constant, Difference, Floats, Inverse, Ref
from model.ops.linear import View
from model.ops.update import Rate
from model.ops.values import Prompt, Values
from model.runtime.backward import on_demand, site_gradients
from model.runtime.bounds import within_bounds
from model.runtime.learn import MOST_STEPS, Learning, suggested_rate
from model.runtime.loaded import LoadedModel
from model.runtime.sample import Choice, Sampling, check_whole, choose
from model.weights.tokenizer import Tokenizer


class Run(Values):
    """Values of every site for a prompt; `target_is_own` says that its target is the model's own first guess."""

    in_parts: frozenset[str] = frozenset()  # sites of which a part is worked out, rather than the whole
    is_long = False  # kept by its residual stream alone: see `model.runtime.long_run`

    def __init__(
        self, model: LoadedModel, prompt: Prompt, captured: dict[str, Tensor], patches: tuple[Patch, ...] = ()
    ) -> None:
        self.model, self.prompt, self.patches = model, prompt, patches
        self._tensors = captured
        self._slopes: dict[str, Tensor] = {}
        self._lock = threading.RLock()
        self._rate: Rate | None = None
        self._learning: Learning[Run] | None = None
        self.target_is_own = prompt.target is None
        if self.target_is_own:
            self.prompt = replace(prompt, target=self.largest_logit(self.n_pos - 1))

    @classmethod
    def of(cls, model: LoadedModel, prompt: Prompt, patches: tuple[Patch, ...] = ()) -> Run:
        """One forward pass of the model, with what patches set."""
        with model.timing(len(prompt.tokens)), torch.no_grad():
            captured = {site: output[0].cpu() for site, output in model.capture(prompt.tokens, patches).items()}
            for name, weights in model.capture.changed_weights(patches).items():
                captured |= model.architecture.views(name, weights.cpu(), model.config)
            return Run(model, prompt, captured, patches)

    @property
    def graph(self) -> Graph:
        return self.model.graph

    @property
    def vocabulary(self) -> Tokenizer:
        return self.model.tokenizer

    def seconds_back(self, block: int | None = 0) -> float:
        """About how long it takes until slopes in a block (None: after the blocks) are known."""
        return 0.0 if self.has_slopes else self.model.seconds(self.n_pos)

    @property
    def seconds_inside(self) -> float:
        """About how long it takes to compute the inside of a block again; no time where it is kept."""
        return 0.0

    @property
    def nbytes(self) -> int:
        """Bytes held by sites, their gradients and changed weights, learning steps included; not the model's own.

        Memory that several share, as the stream's sites do where one block hands on to the next, counts once.
        """
        tensors = [*self._tensors.values(), *self._slopes.values()]
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        own = sum(size for at, size in storages.items() if at not in self.model.storages)
        return own + sum(run.nbytes for run in self._learning.runs[1:]) if self._learning else own

    def shed(self, nbytes: int) -> None:
        """Give up about so many bytes of what can be computed again while the rest stays: nothing here."""

    # -- values

    def tensor(self, site: str) -> Tensor:
        """The whole site or parameter as PyTorch has it: float32, axes as in the graph (tokens: int64)."""
        found = self._tensors.get(site)
        if found is None:
            with self._lock, torch.no_grad():
                found = self._tensors.get(site)
                if found is None:
                    found = self._derived(self.graph[site])
        return found

    def _derived(self, node: Node) -> Tensor:
        """A site that is not kept."""
        found = self._tensors[node.name] = node.op.derive(self)
        return found

    def gradient(self, site: str) -> Tensor:
        """∂loss/∂site for a whole site, float32, axes as in the graph. The first call computes all captured ones."""
        with self._lock:
            if not self._slopes:
                self._slopes.update(site_gradients(self, self.model.capture.net))
            if site not in self._slopes:
                self._slopes[site] = on_demand(self.graph, self, site, (slice(None),) * len(self.shape(site)))
            return self._slopes[site]

    def gradient_at(self, name: str, index: tuple[Index, ...]) -> Tensor:
        """∂loss/∂name[index] of a site or parameter; of a parameter only the part asked for is computed."""
        if self.graph[name].is_parameter and name not in self._slopes:
            with torch.no_grad():
                return on_demand(self.graph, self, name, index)
        return self.gradient(name)[index]

    def numbers(self, column: Column) -> Floats:
        """The values of one column of factors in float64, one per term (or one for all)."""
        if isinstance(column, (Constant, Computed)):
            return np.asarray(column.value, dtype=np.float64)
        if isinstance(column, Inverse):
            return 1 / self.numbers(column.of)
        if isinstance(column, Difference):
            return self.numbers(column.minuend) - self.numbers(column.subtrahend)
        in_parts = self.graph[column.site].is_parameter or column.site in self.in_parts
        if not column.quantity and not in_parts:
            return np.asarray(self.tensor(column.site).numpy()[column.index], dtype=np.float64)
        return np.asarray(self._through_bounds(column), dtype=np.float64)

    def _through_bounds(self, column: Ref) -> NDArray[Any]:
        """A column of what is computed part by part: the smallest part that holds all its places is asked for."""
        index: tuple[Any, ...] = column.index
        bounds = tuple(i if isinstance(i, slice) else slice(int(np.min(i)), int(np.max(i)) + 1) for i in index)
        inside = tuple(slice(None) if isinstance(i, slice) else i - b.start for i, b in zip(index, bounds, strict=True))
        found: NDArray[Any] = self.part(column.site, bounds, column.quantity).numpy()[inside]
        return found

    def part(self, site: str, index: tuple[Index, ...], quantity: str = "") -> Tensor:
        """One quantity of site[index], computing no more than it needs: see `model.address.parser.Address`."""
        kind, step = (asked := Address(site, index, quantity)).kind, asked.step
        if kind in ("m", "v"):
            return self.learning.moment(kind, site, step or 0, index)
        if step is not None:
            return self.after(step, with_slopes=kind == "grad").part(site, index, "grad" if kind == "grad" else "")
        if kind == "grad":
            return self.gradient_at(site, index)
        return self.weights(site, index) if self.graph[site].is_parameter else self.value_at(site, index)

    def value_at(self, site: str, index: tuple[Index, ...]) -> Tensor:
        """A part of a site."""
        return self.tensor(site)[index]

    def weights(self, name: str, index: tuple[Index, ...]) -> Tensor:
        """A parameter's part as this run used it."""
        return self.tensor(name)[index]

    def stored(self, name: str) -> Tensor:
        """The whole parameter that this run used."""
        return self.model.parameter(name)

    # -- learning steps from here

    @property
    def learning(self) -> Learning[Run]:
        """The steps taken from this run at its rate, as many as were asked for so far."""
        with self._lock:
            if self._learning is None:
                self._learning = Learning(self, self._rate or suggested_rate(self))
            return self._learning

    @property
    def steps_taken(self) -> int:
        """How many learning steps are kept with this run; asking takes none."""
        return len(self._learning.runs) - 1 if self._learning else 0

    @property
    def rate(self) -> Rate:
        """The learning rate in use: the one given, or one measured to lower this run's loss."""
        return self.learning.rate

    def after(self, k: int, *, with_slopes: bool = False) -> Run:
        """The run after k steps; `with_slopes`, its gradients too."""
        self.learning.take(k, with_slopes=with_slopes)
        return self.learning.runs[k]

    def stepped(self, learning: Learning[Run], step: int, captured: dict[str, Tensor]) -> Run:
        """The run of the same prompt on the weights after some steps, from what was captured on them."""
        return StepRun(self, learning, step, captured)

    def at_rate(self, rate: Rate | None) -> Run:
        """The same run, sharing all that is computed, with learning steps of its own at another rate."""
        other = copy.copy(self)
        other._rate, other._learning = rate, None
        return other

    @property
    def has_slopes(self) -> bool:
        return bool(self._slopes)

    def keep_slopes(self, slopes: dict[str, Tensor]) -> None:
        """Slopes that another pass found, of all captured sites and perhaps of parameters."""
        for name, slope in slopes.items():
            self._slopes.setdefault(name, slope)

    def size(self, axis: str) -> int:
        return self.graph.size(axis, self.n_pos)

    def shape(self, site: str) -> tuple[int, ...]:
        return self.graph.shape(site, self.n_pos)

    def top(self, n: int, t: int = -1) -> list[tuple[int, float]]:
        """The `n` likeliest next tokens after position `t` as (token id, probability), lowest id first on a tie."""
        p = self.value_at("probs", (t % self.n_pos,)).numpy()
        order = np.argsort(-p, kind="stable")[:n]
        return [(int(v), float(p[v])) for v in order]

    def next(self, *, t: int | None = None, position: int | None = None, **settings: Any) -> Choice:
        """The choice of the token after position `t` (the last), laid open: `settings` are fields of `Sampling`.

        `position` is the token's place in the whole text where this run's begins later than that.
        """
        t = self.n_pos - 1 if t is None else t
        check_whole("t", t, self.n_pos - 1, "Positions are counted from 0.")
        place = t + 1 if position is None else position
        return choose(self.tensor("logits")[t].numpy(), Sampling(**settings), place, t)

    # -- addresses

    def check(self, address: Address) -> Address:
        """The address with every index checked against this run. Axes left out at the end mean all of them."""
        if address.quantity:
            self._check_quantity(address)
        return within_bounds(self.graph, address, self.n_pos)

    def _check_quantity(self, address: Address) -> None:
        """Raise where the site has no such quantity in this run."""
        node = self.graph[address.site]
        if address.site == "tokens":
            at = next((i for i in address.index if isinstance(i, int)), 0)
            raise AddressError(
                "A token id has no gradient and takes no step: it is an address in the vocabulary, not a quantity.",
                f"The row it picks has one: embed[{at},0].grad.",
            )
        if self.patches:
            raise AddressError(
                "Slopes and steps are not computed in a run whose numbers were set.",
                "Take the changes away to see them.",
            )
        if address.step is not None and address.step > MOST_STEPS:
            what = f"{address} asks for {address.step} steps; the limit is {MOST_STEPS}."
            raise AddressError(what, "As in loss.step(10).")
        if address.kind in ("m", "v"):
            if not node.is_parameter:
                raise AddressError(f"{address.site} is no parameter: only weights have running averages.")
            if self.rate.optimizer != "adamw":
                raise AddressError("Only AdamW keeps running averages of the slope.", "Choose the optimizer adamw.")

    # -- what if

    def changed(self, changes: Sequence[str]) -> Run:
        """The run that goes on from here with numbers set on the way, each written as `model.address.patch` says.

        The target stays what it was, also where it was the model's own guess. Raises PatchError, AddressError.
        """
        if len(changes) > MOST_CHANGES:
            raise PatchError(f"{len(changes)} changes at once are too many; the limit is {MOST_CHANGES}.")
        model = self.model.without_additions if NO_ADDITIONS in changes else self.model
        parsed = [self.model.patch(change) for change in changes if change != NO_ADDITIONS]
        patches = tuple(replace(patch, at=self.check(patch.at)) for patch in parsed)
        prompt = replace(self.prompt, target=None) if self.is_sequence else self.prompt
        return type(self).of(model, prompt, patches)

    def values(self, at: str | Address) -> NDArray[Any]:
        """The numbers at an address, slices included: float32 (tokens int64, calc float64), with the sliced axes."""
        address = parse(at) if isinstance(at, str) else at
        if isinstance(address, Calc):
            return np.asarray(evaluate(self, address.tree))
        address = self.check(address)
        return self.part(address.site, address.index, address.quantity).numpy().copy()

    __getitem__ = values

    def explain(self, at: str, *, offset: int = 0, limit: int = 20, order: Order = "index") -> Explanation:
        """How the number at one address is made: see `model.explain.explanation`."""
        return explain(self, at, Window(offset, limit, order))

    # -- faults

    def first_fault(self) -> str | None:
        """The first site, in order of computation, that holds NaN or ±∞ (masked scores aside), or None."""
        sites = (n.name for n in self.graph.sites if n.name in self._tensors and n.short != "scores")
        return next((site for site in sites if not torch.isfinite(self.tensor(site)).all()), None)


class StepRun(Run):
    """The run on the weights after `step` steps: captured sites of its own, weights computed when asked for."""

    def __init__(self, start: Run, learning: Learning[Run], step: int, captured: dict[str, Tensor]) -> None:
        self.learning_from, self.step = learning, step
        super().__init__(start.model, start.prompt, captured)

    def gradient(self, site: str) -> Tensor:
        if not self.has_slopes:
            self.learning_from.take(self.step, with_slopes=True)
            self.keep_slopes(self.learning_from.runs[self.step]._slopes)
        return super().gradient(site)

    def stored(self, name: str) -> Tensor:
        return self.learning_from.parameter(name, self.step, (slice(None),) * len(self.shape(name)))

    def weights(self, name: str, index: tuple[Index, ...]) -> Tensor:
        if isinstance(view := self.graph[name].op, View):
            return view.spread(self, self.weights(view.whole.site, view.in_whole(index)), index)
        return self.learning_from.parameter(name, self.step, index)
