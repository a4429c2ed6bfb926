"""Where numbers come in: token ids, learned parameters, and the two tables looked up at the start."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from model.address.trees import Index
from model.ops.base import IDENTITY, PICKED, Constant, Group, Place, Ref, Rule, along, every, grad, subscript, summed
from model.ops.linear import Operand, View
from model.ops.op import Op
from model.ops.values import Values


class Tokens(Op):
    """The ids that the tokenizer made of the reader's text. The end of every chain of explanations."""

    name, out = "tokens", "tokens"

    def derive(self, run: Values) -> Tensor:
        return torch.tensor(run.tokens)

    def formula(self, run: Values, at: Place) -> str:
        return rf"\mathrm{{token}}_{{{at[0]}}} = {run.tokens[at[0]]}"

    def plain(self, run: Values, at: Place) -> str:
        if at[0] == 0 and run.bos:
            return "{t0} marks the start of a text; it is put in front of every sentence unless switched off."
        return f"The tokenizer cut the text into pieces from a fixed list; {{t{at[0]}}} is number {run.tokens[at[0]]}."

    def forward(self, run: Values, at: Place) -> Rule:
        raw = run.vocabulary.bytes(run.tokens[at[0]])
        return Rule("given", notes=("An id is an address in the vocabulary, not a quantity.", f"Bytes: {raw.hex(' ')}"))


class Parameter(Op):
    """A learned number. Training set it once; every run reads the same value."""

    name = "parameter"

    def __init__(self, out: str, symbol: str, says: str) -> None:
        self.out, self.symbol, self.says = out, symbol, says

    def derive(self, run: Values) -> Tensor:
        return run.stored(self.out)

    def formula(self, run: Values, at: Place) -> str:
        return subscript(self.symbol, at)

    def forward(self, run: Values, at: Place) -> Rule:
        notes = ["A learned weight: set by training, the same in every run."]
        if self.out == "W_E" and at[0] < run.vocabulary.n_vocab:
            notes.append(f"Row {at[0]} belongs to the token “{run.vocabulary.show(at[0])}”.")
        if self.out == "W_pos" and at[0] >= run.n_pos:
            notes.append(f"Row {at[0]} is not used in this run: the text ends at position {run.n_pos - 1}.")
        return Rule("given", notes=tuple(notes))


class Tied(View):
    """`W_U[i,v]`, the unembedding: another name for `W_E[v,i]`."""

    name, out, reads = "tied", "W_U", ("W_E",)
    letters, whole = "iv", Operand("W_E", "vi", "W_E")

    def __init__(self, architecture: str) -> None:
        """`architecture` is the name of the networks that do so."""
        self.says = (
            f"{architecture} reads words out with the table it reads them in with: this is row {{entry}} of W_E."
        )

    def derive(self, run: Values) -> Tensor:
        return run.tensor("W_E").T

    def formula(self, run: Values, at: Place) -> str:
        return f"{subscript('W_U', at)} = {subscript('W_E', at[::-1])}"

    def forward(self, run: Values, at: Place) -> Rule:
        return Rule("sum", (Group((Ref("W_E", at[::-1]),)),))

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at[::-1]]


class Picked(Op):
    """A row of a table."""

    name, picture = "lookup", "row"

    def row(self, run: Values, t: int) -> tuple[str, int]:
        """The table and which of its rows position t picks."""
        raise NotImplementedError


class Lookup(Picked):
    """`embed[t,m] = W_E[tokens[t], m]`: the token's id picks a row of the table."""

    out, reads = "embed", ("tokens", "W_E")
    passes_on = ("W_E",)
    backward_latex = r"\sum_{t\,:\,\mathrm{token}_t} " + along("e_t")

    def row(self, run: Values, t: int) -> tuple[str, int]:
        return "W_E", run.tokens[t]

    def formula(self, run: Values, at: Place) -> str:
        t, m = at
        row = rf"\mathrm{{token}}_{{{t}}}"
        return f"{subscript('e', at)} = {subscript('W_E', (row, m))} = {subscript('W_E', (run.tokens[t], m))}"

    def plain(self, run: Values, at: Place) -> str:
        t, m = at
        return f"{{t{t}}} has id {run.tokens[t]}, so this is entry {m} of row {run.tokens[t]} of the learned table."

    def forward(self, run: Values, at: Place) -> Rule:
        t, m = at
        row = Ref("W_E", (run.tokens[t], m))
        terms = Group((Ref("tokens", (t,)), row), label="the row it picks", product=PICKED)
        return Rule("function", (terms,), function=IDENTITY)

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        row, m = at
        t = np.flatnonzero(np.array(run.tokens) == row)
        return (summed("pos", t, grad("embed", (t, m))),) if len(t) else ()

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        row, m = index
        slopes, tokens = run.gradient("embed")[:, m].double(), run.tensor("tokens")
        if isinstance(row, int):
            return slopes[tokens == row].sum(0)
        first, stop, _ = row.indices(run.size("d_vocab"))
        here = (tokens >= first) & (tokens < stop)
        rows = torch.zeros(stop - first, *slopes.shape[1:])
        for token in set(tokens[here].tolist()):  # a row of the table for each token, summed in float64
            rows[token - first] = slopes[tokens == token].sum(0).float()
        return rows

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        if source == "tokens":
            return [(at[0], every())]
        return [(t, at[1]) for t, token in enumerate(run.tokens) if token == at[0]]


class PositionRow(Picked):
    """`pos_embed[t,m] = W_pos[t,m]`: the position picks a row of the table, whatever the token."""

    out, reads = "pos_embed", ("W_pos",)
    says = "{token} stands at position {0}, so this is entry {1} of row {0} of the position table."
    backward_latex = along(r"\mathrm{pos}")

    def row(self, run: Values, t: int) -> tuple[str, int]:
        return "W_pos", t

    def formula(self, run: Values, at: Place) -> str:
        return subscript(r"\mathrm{pos}", at) + " = " + subscript(r"W_{\mathrm{pos}}", at)

    def forward(self, run: Values, at: Place) -> Rule:
        position = Constant(r"\mathrm{position}", at[0])
        terms = Group((position, Ref("W_pos", at)), label="the row it picks", product=PICKED)
        return Rule("function", (terms,), function=IDENTITY)

    def backward(self, run: Values, source: str, at: Place) -> tuple[Group, ...]:
        return (Group((grad("pos_embed", at),)),) if at[0] < run.n_pos else ()

    def gradient(self, run: Values, source: str, index: tuple[Index, ...]) -> Tensor:
        slopes = run.gradient("pos_embed").double()
        unread = run.size("n_ctx") - run.n_pos
        return torch.cat([slopes, slopes.new_zeros(unread, slopes.shape[1])])[index]

    def readers(self, run: Values, source: str, at: Place) -> list[tuple[Index, ...]]:
        return [at] if at[0] < run.n_pos else []
