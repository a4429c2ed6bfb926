"""From scores to weights, in attention and over the vocabulary.

softmax(s)_j = e^(s_j − max) / Σ_k e^(s_k − max). Taking the largest score away changes nothing (it divides out) and
keeps e^… from overflowing.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from model.address.trees import Index
from model.ops.base import (
    EXP,
    RAISED,
    Column,
    Computed,
    Constant,
    Group,
    Place,
    Ref,
    Rule,
    along,
    every,
    grad,
    subscript,
    summed,
)
from model.ops.op import Op
from model.ops.values import Values

MINUS = Constant("-1", -1.0)


class MaskedScale(Op):
    """scores[h,q,k] = qk[h,q,k] / √d_head, or −∞ where the key comes after the query."""

    name = "mask and scale"
    backward_latex = along("s") + r"\,\frac{1}{\sqrt{d}}"

    def __init__(self, attn: str) -> None:
        self.qk, self.out = f"{attn}.qk", f"{attn}.scores"
        self.reads = (self.qk,)

    def formula(self, run: Values, at: Place) -> str:
        _, q, k = at
        if k > q:
            return rf"{subscript('s', at)} = -\infty \quad ({k} > {q})"
        return rf"{subscript('s', at)} = \frac{{(q_{{{q}}} \cdot k_{{{k}}})}}{{\sqrt{{{run.size('d_head')}}}}}"

    def plain(self, run: Values, at: Place) -> str:
        _, q, k = at
        if k > q:
            after = f"{{t{k}}} comes after {{t{q}}}"
            return f"{after}: the mask sets the score to −∞, so that no position sees what it must guess."
        d = run.size("d_head")
        return f"Dot products of {d} numbers grow like √{d}; dividing keeps scores in a range softmax can work with."

    def forward(self, run: Values, at: Place) -> Rule:
        if at[2] > at[1]:
            return Rule("sum", (Group((Constant(r"-\infty", -math.inf),), label="mask"),), notes=("Masked.",))
        d = run.size("d_head")
        return Rule("sum", (Group((Ref(self.qk, at), Constant(rf"\tfrac{{1}}{{\sqrt{{{d}}}}}", 1 / math.sqrt(d)))),))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        if at[2] > at[1]:
            return ()  # the mask replaces it: nothing later reads it
        d = run.size("d_head")
        return (Group((grad(self.out, at), Constant(rf"\tfrac{{1}}{{\sqrt{{{d}}}}}", 1 / math.sqrt(d)))),)

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        return run.gradient(self.out)[index].double() / math.sqrt(run.size("d_head"))  # 0 where masked

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at] if at[2] <= at[1] else []


class Exponential(Op):
    """exp[h,q,k] = e^(scores[h,q,k] − max_j scores[h,q,j])."""

    name, function = "exp", EXP
    passes_on = ()  # softmax hands the slope on to the scores in one step: see Weights

    def __init__(self, attn: str) -> None:
        self.scores, self.out = f"{attn}.scores", f"{attn}.exp"
        self.reads = (self.scores,)

    def derive(self, run: Values) -> Tensor:
        scores = run.tensor(self.scores)
        return (scores - scores.amax(-1, keepdim=True)).exp()

    def _largest(self, run: Values, at: Place) -> int:
        return int(np.argmax(run.numbers(Ref(self.scores, (at[0], at[1], np.arange(at[1] + 1))))))

    def formula(self, run: Values, at: Place) -> str:
        h, q, _ = at
        return rf"\mathrm{{exp}}_{{{h},{q},{at[2]}}} = e^{{{subscript('s', at)} - \max_j s_{{{h},{q},j}}}}"

    def plain(self, run: Values, at: Place) -> str:
        largest = f"the row's largest score (for {{t{self._largest(run, at)}}})"
        return f"e to the power of the score, after {largest} is taken away, so the largest becomes 1."

    def forward(self, run: Values, at: Place) -> Rule:
        largest = Ref(self.scores, (at[0], at[1], self._largest(run, at)))
        score = Group((Ref(self.scores, at),), label="score")
        return Rule("function", (score, Group((largest, MINUS), label="largest")), function=self.function)

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        h, q, k = at
        is_largest = k <= q and k == self._largest(run, at)
        return [(h, q, every())] if is_largest else [at]


class Softmax(Op):
    """Numbers of one row raised and divided by their total. `words` name one number before and after."""

    name = "softmax"
    before = ""  # the site that it reads, in the end
    words: tuple[str, str]

    def raised(self, run: Values, at: Place) -> str:
        """The address of the exponential of the number at `at`."""
        raise NotImplementedError


class Weights(Softmax):
    """pattern[h,q,k] = exp[h,q,k] / Σ_j exp[h,q,j]: one head's attention weights, each row adding to 1."""

    words, picture = ("score", "weight"), "weights"

    def __init__(self, attn: str) -> None:
        self.exp, self.scores, self.out = f"{attn}.exp", f"{attn}.scores", f"{attn}.pattern"
        self.reads, self.before = (self.exp,), self.scores
        self.passes_on = (self.exp, self.scores)

    def raised(self, run: Values, at: Place) -> str:
        return Ref(self.exp, at).address(0)

    def formula(self, run: Values, at: Place) -> str:
        h, q, k = at
        left = subscript("a", at)
        row = rf"\sum_{{j=0}}^{{{q}}} \mathrm{{exp}}_{{{h},{q},j}}"
        return rf"{left} = \frac{{\mathrm{{exp}}_{{{h},{q},{k}}}}}{{{row}}}"

    def plain(self, run: Values, at: Place) -> str:
        _, q, k = at
        if k > q and not run.value_at(self.out, at):  # a reader may have set its score
            return f"{{t{k}}} comes after {{t{q}}}, so it gets no weight."
        return f"How much of {{t{q}}}'s attention goes to {{t{k}}}: its exponential's share of the whole row."

    def forward(self, run: Values, at: Place) -> Rule:
        h, q, _ = at
        j = np.arange(run.n_pos)
        row = summed("key", j, Ref(self.exp, (h, q, j)))
        return Rule("quotient", (Group((Ref(self.exp, at),), label="this one"), row))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        """Along the scores a_k(g_k − Σ_j a_j g_j), along the exponentials (g_k − Σ_j a_j g_j)/total; g is ∂L/∂a."""
        h, q, k = at
        if k > q and source == self.scores:
            return ()
        j = np.arange(run.n_pos)
        if source == self.scores:
            scale: Column = Ref(self.out, at)
        else:
            total = float(run.numbers(Ref(self.exp, (h, q, j))).sum())
            scale = Computed(f"calc(1/sum({self.exp}[{h},{q},:]))", 1 / total)
        row = (scale, MINUS, Ref(self.out, (h, q, j)), grad(self.out, (h, q, j)))
        own = Group((scale, grad(self.out, at)), label="its own slope")
        return (own, summed("key", j, *row, label="minus the row's average"))

    def slope(self, source: str) -> str:
        own = rf"\left({along('a_k')} - \sum_j a_j {along('a_j')}\right)"
        return rf"a_k {own}" if source == self.scores else rf"\frac{{1}}{{\sum_j \mathrm{{exp}}_j}} {own}"

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        *rows, keys = index
        pattern, slopes, exp = (
            t[tuple(rows)] for t in (run.tensor(self.out), run.gradient(self.out), run.tensor(self.exp))
        )
        pattern, slopes = pattern.double(), slopes.double()
        average = (pattern * slopes).sum(-1, keepdim=True)
        return ((slopes - average) / exp.sum(-1, keepdim=True))[..., keys]

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [(at[0], at[1], every())]


class Probabilities(Softmax):
    """probs[t,v] = e^(logits[t,v] − max) / Σ_u e^(logits[t,u] − max) over the whole vocabulary."""

    out, reads, before = "probs", ("logits",), "logits"
    words = ("logit", "probability")
    says = "The probability that {entry} comes after {token}: its exponential's share of all {d_vocab:,}."
    backward_latex = rf"p_v\left({along('p_v')} - \sum_u p_u {along('p_u')}\right) = p_v - y_v"

    def raised(self, run: Values, at: Place) -> str:
        return f"calc(exp(logits[{at[0]},{at[1]}]-logits[{at[0]},{run.largest_logit(at[0])}]))"

    def derive(self, run: Values) -> Tensor:
        return run.tensor("logits").softmax(-1)

    def formula(self, run: Values, at: Place) -> str:
        t, last = at[0], run.size("d_vocab") - 1
        top = rf"e^{{\mathrm{{logit}}_{{{t},{at[1]}}} - \max}}"
        total = rf"\sum_{{u=0}}^{{{last}}} e^{{\mathrm{{logit}}_{{{t},u}} - \max}}"
        return rf"{subscript('p', at)} = \frac{{{top}}}{{{total}}}"

    def forward(self, run: Values, at: Place) -> Rule:
        t, u = at[0], np.arange(run.size("d_vocab"))
        largest = Ref("logits", (t, run.largest_logit(t)))
        this = Group((Ref("logits", at), largest), label="this one", product=RAISED)
        return Rule("quotient", (this, summed("d_vocab", u, Ref("logits", (t, u)), largest, product=RAISED)))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        """p_v(g_v − Σ_u p_u g_u) with g = ∂L/∂p, which is not 0 only for the one token scored at t: in all, p − y."""
        t, v = at
        u = run.next_token(t)
        if not run.reads_probability(t):
            return ()
        rest = Group((MINUS, Ref("probs", at), Ref("probs", (t, u)), grad("probs", (t, u))), label="p, its probability")
        own = Group((Ref("probs", at), grad("probs", at)), label="−1, the right answer")
        return (rest, own) if v == u else (rest,)

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [(at[0], every())]


class LogProbabilities(Op):
    """log_probs[t,v] = logits[t,v] − max − log Σ_u e^(logits[t,u] − max): stays a number where p rounds to 0."""

    name, out, reads = "log softmax", "log_probs", ("logits",)
    says = "The logarithm of the probability of {entry} after {token}, without going through a tiny p."
    backward_latex = rf"{along(chr(92) + 'log p_v')} - p_v \sum_u {along(chr(92) + 'log p_u')}"

    def derive(self, run: Values) -> Tensor:
        return torch.log_softmax(run.tensor("logits"), -1)

    def formula(self, run: Values, at: Place) -> str:
        logit = rf"\mathrm{{logit}}_{{{at[0]},{at[1]}}}"
        total = rf"\log \sum_u e^{{\mathrm{{logit}}_{{{at[0]},u}} - \max}}"
        return rf"\log {subscript('p', at)} = {logit} - \max - {total}"

    def forward(self, run: Values, at: Place) -> Rule:
        t = at[0]
        row = run.numbers(Ref("logits", (t, np.arange(run.size("d_vocab")))))
        log_sum = Computed(
            f"calc(log(sum(exp(logits[{t},:]-max(logits[{t},:])))))", float(np.log(np.exp(row - row.max()).sum()))
        )
        largest = Group((Ref("logits", (t, run.largest_logit(t))), MINUS), label="largest logit")
        logit, total = Group((Ref("logits", at),), label="logit"), Group((log_sum, MINUS), label="log of the total")
        return Rule("sum", (logit, largest, total))

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        t, v = at
        u = run.next_token(t)
        if not run.reads_log_probability(t):
            return ()
        rest = Group((MINUS, Ref("probs", at), grad("log_probs", (t, u))), label="p, its probability")
        own = Group((grad("log_probs", at),), label="−1, the right answer")
        return (rest, own) if v == u else (rest,)

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [(at[0], every())]
