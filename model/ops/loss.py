"""How surprised the model is by what really comes next: −log of the probability it gave."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from model.address.trees import Index
from model.ops.base import MINUS_LOG, Constant, Group, Inverse, Place, Ref, Rule, along, fraction, grad, summed
from model.ops.op import Op
from model.ops.values import Values


def too_small(p: Tensor) -> Tensor:
    """Where a probability is too small for float32 to keep its digits."""
    return p < torch.finfo(p.dtype).tiny


def minus_log_p(p: Tensor, log_p: Callable[[], Tensor]) -> Tensor:
    """−log p for each probability; from `log_p()` where p is too small for float32 to keep its digits."""
    tiny = too_small(p)
    if not bool(tiny.any()):
        return -p.log()
    return torch.where(tiny, -log_p(), -torch.where(tiny, 1.0, p).log())


class TokenLoss(Op):
    """loss_per_token[t] = −log probs[t, token t+1]; at the last position −log probs[t, target].

    Where that probability rounds to 0 (or loses its digits) in float32, log_probs is read instead.
    """

    name, out, reads = "-log p", "loss_per_token", ("probs", "log_probs", "tokens")
    passes_on = ("probs", "log_probs")
    function = MINUS_LOG

    def derive(self, run: Values) -> Tensor:
        places = (torch.arange(run.n_pos), torch.tensor([run.next_token(t) for t in range(run.n_pos)]))
        return minus_log_p(run.tensor("probs")[places], lambda: run.tensor("log_probs")[places])

    def formula(self, run: Values, at: Place) -> str:
        return rf"L_{{{at[0]}}} = -\log p_{{{at[0]},{run.next_token(at[0])}}}"

    def plain(self, run: Values, at: Place) -> str:
        t = at[0]
        right = f"{{v{run.next_token(t)}}}"
        if t == run.n_pos - 1:
            what = f"After {{t{t}}} the target is {right}"
        else:
            what = f"After {{t{t}}} the text goes on with {right}"
        return what + "; the loss is minus the logarithm of the probability it was given."

    def forward(self, run: Values, at: Place) -> Rule:
        t = at[0]
        place = (t, run.next_token(t))
        if run.underflows(t):
            note = "The probability is too small for float32, so this reads its logarithm from log_probs."
            return Rule("sum", (Group((Ref("log_probs", place), Constant("-1", -1.0))),), notes=(note,))
        return Rule("function", (Group((Ref("probs", place),), label="p"),), function=self.function)

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        t, v = at
        if v != run.next_token(t) or (source == "log_probs") != run.underflows(t):
            return ()
        columns = (grad(self.out, (t,)), Constant("-1", -1.0))
        return (Group((*columns, Inverse(Ref("probs", at))) if source == "probs" else columns),)

    def slope(self, source: str) -> str:
        return rf"-{along('L_t')}" + (r"\,\frac{1}{p}" if source == "probs" else "")

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        if source == "tokens":
            return [(at[0] - 1,)] if at[0] > 0 else []
        t, v = at
        reads_it = v == run.next_token(t) and (source == "log_probs") == run.underflows(t)
        return [(t,)] if reads_it else []


class Loss(Op):
    """The number that training lowers: the last position's loss, or the mean over the text's own next tokens."""

    name, out, reads = "loss", "loss", ("loss_per_token",)
    backward_latex = along("L") + r"\,\frac{1}{n}"

    def derive(self, run: Values) -> Tensor:
        positions = run.scored
        return run.tensor("loss_per_token")[positions.start : positions.stop].mean()

    def formula(self, run: Values, at: Place) -> str:
        n = run.n_pos - 1
        return rf"L = \frac{{1}}{{{n}}} \sum_{{t=0}}^{{{n - 1}}} L_t" if run.is_sequence else f"L = L_{{{n}}}"

    def plain(self, run: Values, at: Place) -> str:
        if run.is_sequence:
            return "The average over all positions that have a next token in the text."
        return f"The loss at the last position, {{t{run.n_pos - 1}}}, for the target {{v{run.target}}}."

    def forward(self, run: Values, at: Place) -> Rule:
        positions = run.scored
        n = len(positions)
        if n == 1:
            return Rule("sum", (Group((Ref("loss_per_token", (positions.start,)),)),))
        t = np.arange(n)
        return Rule("sum", (summed("pos", t, Ref("loss_per_token", (t,)), fraction(1, n)),))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        return (Group((grad("loss"), fraction(1, len(run.scored)))),) if at[0] in run.scored else ()

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [()] if at[0] in run.scored else []
