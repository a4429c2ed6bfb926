"""What a rule may ask of a run. Ops know a run by this alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from model.address.patch import Patch
from model.address.trees import Index
from model.ops.base import Column, Floats


@dataclass(frozen=True)
class Prompt:
    """What a run reads, and what its loss is.

    tokens       ids, the start token first where `bos` put it there
    target       the token whose −log p is the last position's loss; None: the run's own first guess
    is_sequence  True where the loss is the mean over the text's own next tokens
    """

    text: str
    tokens: tuple[int, ...]
    bos: bool = True
    target: int | None = None
    is_sequence: bool = False


class Vocabulary(Protocol):
    """How tokens are written, as far as a rule says so."""

    @property
    def n_vocab(self) -> int: ...

    def bytes(self, token: int) -> bytes: ...

    def show(self, token: int) -> str: ...


class Values(Protocol):
    """The numbers of one run by the places of the graph.

    prompt      what was read, with the target that was scored
    patches     the numbers that a reader set
    vocabulary  how tokens are written
    tensor      a whole site or parameter, float32, axes as in the graph (tokens: int64)
    value_at    a part of a site, computing no more than it needs
    stored      a whole parameter, as the network holds it
    gradient    ∂loss/∂site for a whole site, float32; `gradient_at` a part of it, or of a parameter's
    numbers     one column of factors in float64, a number a term (or one for all)
    shape       the sizes of a site's axes; `size` that of one axis
    """

    prompt: Prompt
    patches: tuple[Patch, ...]

    @property
    def vocabulary(self) -> Vocabulary: ...

    def tensor(self, site: str) -> Tensor: ...

    def value_at(self, site: str, index: tuple[Index, ...]) -> Tensor: ...

    def stored(self, name: str) -> Tensor: ...

    def gradient(self, site: str) -> Tensor: ...

    def gradient_at(self, name: str, index: tuple[Index, ...]) -> Tensor: ...

    def numbers(self, column: Column) -> Floats: ...

    def shape(self, site: str) -> tuple[int, ...]: ...

    def size(self, axis: str) -> int: ...

    # -- what follows from these

    @property
    def text(self) -> str:
        return self.prompt.text

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.prompt.tokens

    @property
    def bos(self) -> bool:
        return self.prompt.bos

    @property
    def is_sequence(self) -> bool:
        return self.prompt.is_sequence

    @property
    def target(self) -> int:
        """The token that the last position is scored on."""
        assert self.prompt.target is not None  # a run knows its own guess once it has run
        return self.prompt.target

    @property
    def n_pos(self) -> int:
        return len(self.prompt.tokens)

    @property
    def scored(self) -> range:
        """The positions whose loss counts: the last one, or all that have a next token in the text."""
        return range(self.n_pos - 1) if self.is_sequence else range(self.n_pos - 1, self.n_pos)

    def next_token(self, t: int) -> int:
        """What position `t` is scored on: the text's next token, or the target at the last position."""
        return self.tokens[t + 1] if t + 1 < self.n_pos else self.target

    def underflows(self, t: int) -> bool:
        """True where the probability that position `t` is scored on is too small for float32 to keep its digits."""
        return bool(self.value_at("probs", (t, self.next_token(t))) < torch.finfo(torch.float32).tiny)

    def reads_probability(self, t: int) -> bool:
        """True where the loss reads `probs` at position `t`; `reads_log_probability`, where it reads `log_probs`."""
        return t in self.scored and not self.underflows(t)

    def reads_log_probability(self, t: int) -> bool:
        return t in self.scored and self.underflows(t)

    def largest_logit(self, t: int) -> int:
        """The vocabulary entry with the largest logit after position `t` (lowest id on a tie)."""
        return int(np.argmax(self.tensor("logits")[t].numpy()))
