"""A run too large to be kept whole: its residual stream stays, a block's inside is computed again when it is read.

GPT-2 small on 1,024 tokens has 2.4 GB of attention scores and weights alone, and as much again of their slopes. Kept
are the stream between the blocks (3 MB each), the logits, and what has one number a position; once slopes are asked
for, the stream's slopes too. A block's sites follow from the stream that enters it, their slopes from that and the
slope of the stream that leaves it. The same modules see the same numbers, so what is computed again is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import torch
from torch import Tensor

from model.address.parser import Address, Index
from model.address.patch import Patch
from model.arch.base import Node
from model.errors import ReaderError
from model.ops.values import Prompt
from model.runtime.backward import on_demand, slopes_at_the_end
from model.runtime.blockwise import Blockwise, Sites
from model.runtime.learn import Learning
from model.runtime.loaded import LoadedModel
from model.runtime.run import Run
from model.runtime.scratch import Scratch

AT_ONCE = 128  # positions whose slopes along the vocabulary are computed at once
VOCABULARY = ("logits", "probs", "log_probs")
FLOAT = 4  # bytes
UNKNOWN = "not looked for yet"


class LongTextError(ReaderError):
    """Something that a run kept by its stream alone cannot afford."""

    code, part = "too_long", "text"


class LongRun(Run):
    """See above. `_scratch` holds what was computed again, within room for one block and its slopes."""

    in_parts = frozenset({"probs", "log_probs"})
    is_long = True

    def __init__(self, model: LoadedModel, prompt: Prompt, patches: tuple[Patch, ...] = ()) -> None:
        self._parts = Blockwise(model, prompt.tokens, patches)
        self._scratch = Scratch(room(model, len(prompt.tokens)))
        self._fault: str | None = UNKNOWN
        self._entering: list[Tensor] = []  # the stream as it comes to each block, before its resid_pre is changed
        super().__init__(model, prompt, self._pass(model), patches)

    @classmethod
    def of(cls, model: LoadedModel, prompt: Prompt, patches: tuple[Patch, ...] = ()) -> Run:
        with model.timing(len(prompt.tokens)):
            return LongRun(model, prompt, patches)

    @torch.no_grad()
    def _pass(self, model: LoadedModel) -> Sites:
        """One forward pass that keeps the stream, the final norm and the logits."""
        kept = self._parts.enter()
        self._embeddings = tuple(kept)
        first, *others = kept.values()
        stream = sum(others, first)
        for n in range(model.config.n_layer):
            self._entering.append(stream)
            inside = self._parts.block(n, stream)
            stream = inside[f"blocks.{n}.resid_post"]
            kept |= {f"blocks.{n}.resid_pre": inside[f"blocks.{n}.resid_pre"], f"blocks.{n}.resid_post": stream}
            del inside  # before the next block's is made
        kept |= self._parts.leave(stream)
        for name, weights in self._parts.changed_weights.items():
            kept |= model.architecture.views(name, weights, model.config)
        return kept

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._scratch.nbytes

    def shed(self, nbytes: int) -> None:
        self._scratch.shed(nbytes)

    def seconds_back(self, block: int | None = 0) -> float:
        """Each block on the way takes a pass through it again and one back."""
        first = self.model.config.n_layer if block is None else block
        ahead = [n for n in range(first, self.model.config.n_layer) if f"blocks.{n}.resid_pre" not in self._slopes]
        return 2 * self.seconds_inside * len(ahead)

    @property
    def seconds_inside(self) -> float:
        return self.model.seconds(self.n_pos) / self.model.config.n_layer

    # -- values

    def _derived(self, node: Node) -> Tensor:
        if (found := self._scratch.get(node.name)) is not None:
            return found
        if node.block is not None and node.name in self.model.hooked:
            return self._inside(node.block)[node.name]
        if node.is_parameter or len(node.axes) < 2:
            return super()._derived(node)
        self._scratch.make_room(self._size(node.name))
        found = node.op.derive(self)
        self._scratch.put({node.name: found})
        return found

    def _inside(self, n: int) -> Sites:
        """All captured sites of block `n`."""
        sites = [site for site in self.model.hooked if site.startswith(f"blocks.{n}.")]
        held = {site: self._tensors.get(site, self._scratch.get(site)) for site in sites}
        found = {site: tensor for site, tensor in held.items() if tensor is not None}
        if len(found) < len(sites):
            self._scratch.drop(*sites)
            self._scratch.make_room(self._size_inside(n))
            found = self._parts.block(n, self._entering[n])
            self._scratch.put({site: tensor for site, tensor in found.items() if site not in self._tensors})
        return found

    def value_at(self, site: str, index: tuple[Index, ...]) -> Tensor:
        """Of what the whole vocabulary has a number of, only the rows asked for are worked out."""
        if site not in self.in_parts or len(rows := self._rows(index)) > AT_ONCE:
            return super().value_at(site, index)
        with self._lock, torch.no_grad():
            whole = self._scratch.get(site)
            if whole is not None:
                return whole[index]
            softmax = torch.softmax if site == "probs" else torch.log_softmax
            return softmax(self.tensor("logits")[rows.start : rows.stop], -1)[inside_rows(index)]

    def _rows(self, index: tuple[Index, ...]) -> range:
        """The positions that an index of a site with positions first reads."""
        first = index[0] if index else slice(None)
        return range(first, first + 1) if isinstance(first, int) else range(*first.indices(self.n_pos))

    # -- slopes

    def gradient(self, site: str) -> Tensor:
        with self._lock:
            found = self._slopes.get(site)
            if found is None:
                found = self._scratch.get(f"{site}.grad")
            if found is None:
                found = self._find_slope(self.graph[site])
            return found

    def gradient_at(self, name: str, index: tuple[Index, ...]) -> Tensor:
        if name not in VOCABULARY or len(rows := self._rows(index)) > AT_ONCE:
            return super().gradient_at(name, index)
        with self._lock:
            whole = self._scratch.get(f"{name}.grad")
            return whole[index] if whole is not None else self._slopes_along(name, rows)[inside_rows(index)]

    def _find_slope(self, node: Node) -> Tensor:
        name, is_captured = node.name, node.name in self.model.hooked and node.short != "qk"
        if name in VOCABULARY:
            return self._hold_slope(name, lambda: self._slopes_along(name, range(self.n_pos)))
        if node.block is None and (is_captured or len(node.axes) < 2):
            self._go_back_to(0 if name in self._embeddings else self.model.config.n_layer)
            return self._slopes[name]
        if node.block is not None and is_captured:
            self._go_back_to(node.block + 1)
            return self._slopes[name] if name in self._slopes else self._back_through(node.block)[name]
        return self._hold_slope(name, lambda: self._slope_on_demand(node))

    def _hold_slope(self, name: str, find: Callable[[], Tensor]) -> Tensor:
        self._scratch.make_room(self._size(name))
        slope = find()
        self._scratch.put({f"{name}.grad": slope})
        return slope

    def _slope_on_demand(self, node: Node) -> Tensor:
        """Head by head where the site is as large as attention: sums in float64 take twice its memory several times."""
        whole = (slice(None),) * len(node.axes)
        with torch.no_grad():
            if node.axes[:1] != ("head",) or node.is_parameter:
                return on_demand(self.graph, self, node.name, whole)
            heads = range(self.size("head"))
            return torch.stack([on_demand(self.graph, self, node.name, (head, *whole[1:])) for head in heads])

    def _slopes_along(self, name: str, rows: range) -> Tensor:
        """∂loss/∂(logits, probs or log_probs) at some positions; 0 at those that the loss does not read."""
        slopes = self.tensor("logits").new_zeros(len(rows), self.size("d_vocab"))
        for some in pieces(max(rows.start, self.scored.start), min(rows.stop, self.scored.stop)):
            slopes[some.start - rows.start : some.stop - rows.start] = slopes_at_the_end(self, some)[name]
        return slopes

    def _begin_back(self) -> None:
        """From the loss to the stream that leaves the last block."""
        out = torch.zeros_like(self.tensor("ln_final.out"))
        each = out.new_zeros(self.n_pos)
        for some in pieces(self.scored.start, self.scored.stop):
            ends = slopes_at_the_end(self, some)
            out[some.start : some.stop] = self._parts.unembed_back(ends["logits"])
            each[some.start : some.stop] = ends["loss_per_token"]
        self._slopes |= self._parts.leave_back(out, self.tensor)
        self._slopes |= {"loss_per_token": each, "loss": out.new_ones(())}

    def _go_back_to(self, n: int) -> None:
        """Until the slope of the stream that enters block `n` is known (of a block too many: that leaves the last)."""
        if not self._slopes:
            self._begin_back()
        for block in reversed(range(n, self.model.config.n_layer)):
            if f"blocks.{block}.resid_pre" not in self._slopes:
                self._back_through(block)

    def _back_through(self, n: int) -> Sites:
        """Slopes of the captured sites of block `n` (but `qk`), that of the stream that leaves it being known."""
        self._scratch.make_room(self._size_inside(n))
        inside = self._inside(n)  # held here: what room is made for may be among them
        slopes = self._parts.block_back(n, self._slopes[f"blocks.{n}.resid_post"], inside.__getitem__)
        enters = slopes[f"blocks.{n}.resid_pre"]
        before = self._embeddings if n == 0 else (f"blocks.{n - 1}.resid_post",)
        self._slopes |= dict.fromkeys((f"blocks.{n}.resid_pre", *before), enters)
        self._scratch.put({f"{site}.grad": slope for site, slope in slopes.items() if site not in self._slopes})
        return slopes

    def _size_inside(self, n: int) -> int:
        """Bytes of the sites of block `n` that a pass through it makes."""
        return sum(self._size(site) for site in self.model.hooked if site.startswith(f"blocks.{n}."))

    def _size(self, name: str) -> int:
        return FLOAT * prod(self.shape(name))

    # -- what it cannot afford

    def _check_quantity(self, address: Address) -> None:
        super()._check_quantity(address)
        if address.step is not None:
            raise self.too_long_to_learn()

    @property
    def learning(self) -> Learning[Run]:
        raise self.too_long_to_learn()

    def too_long_to_learn(self) -> LongTextError:
        """Says what steps would cost."""
        each = 2 * self.model.sites_nbytes(self.n_pos)
        return LongTextError(
            f"This text of {self.n_pos:,} tokens is too long to learn from: a step would hold every number and its "
            f"slope, {each / 2**20:,.0f} MB, and each step its own.",
            "Values and gradients can be read; to take steps, shorten the text.",
        )

    # -- faults

    def first_fault(self) -> str | None:
        """Looked for once, in every block."""
        if self._fault is UNKNOWN:
            sites = (n.name for n in self.graph.sites if n.name in self.model.hooked and n.short != "scores")
            self._fault = next((site for site in sites if not torch.isfinite(self.tensor(site)).all()), None)
        return self._fault


def room(model: LoadedModel, n_pos: int) -> int:
    """Bytes for what is computed again: all sites of a block and their slopes, or two tables over the vocabulary."""
    block = sum(prod(model.graph.shape(node.name, n_pos)) for node in model.graph.sites if node.block == 0)
    return 2 * FLOAT * max(block, n_pos * model.config.d_vocab)


def inside_rows(index: tuple[Index, ...]) -> tuple[Index, ...]:
    """An index of a whole site, for the rows alone that its first part picks."""
    return (0 if index and isinstance(index[0], int) else slice(None), *index[1:])


def pieces(start: int, stop: int) -> Iterator[range]:
    """The positions from `start` up to `stop`, AT_ONCE of them at a time."""
    for first in range(start, stop, AT_ONCE):
        yield range(first, min(first + AT_ONCE, stop))
