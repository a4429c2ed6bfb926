"""Every site and parameter of a network of the Llama family in the order they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from model.arch.base import Node
from model.arch.llama.config import LlamaConfig
from model.arch.pieces import (
    MLP_WEIGHTS,
    NEURON,
    NORM_WEIGHTS,
    TABLES,
    VECTORS,
    attend,
    blocks,
    embed,
    narrowed,
    param,
    query_key_value,
    read_out,
    step,
    tokens,
)
from model.ops.activation import GatedSilu
from model.ops.embedding import Tied
from model.ops.linear import Operand, SumProduct, axes_of
from model.ops.norm import Divide, RootMeanSquare
from model.ops.rotary import Rotate

NORM = "Steps of RMSNorm"


def nodes(c: LlamaConfig) -> Iterator[Node]:
    """The nodes of a network of this shape; parameters come just before the site that first reads them."""
    yield from tokens()
    yield embed()
    yield from blocks(c, {"embed": "e"}, "What {token} is.", partial(_norm, c), partial(_attention, c), _mlp)
    if c.tied:
        yield Node(
            ("d_model", "d_vocab"), Tied("Llama"), "Unembedding table", "out", is_parameter=True,
            stages=step(TABLES, "W_U", "·"),
        )  # fmt: skip
    else:
        says = "A column of numbers for each token that may come next."
        yield param("W_U", "iv", "W_U", "Unembedding table", "out", says, row=TABLES)
    yield from read_out(Operand("W_E", "vi", "W_E") if c.tied else Operand("W_U", "iv", "W_U"))


def _norm(c: LlamaConfig, ln: str, x: str, part: str, block: int | None) -> Iterator[Node]:
    row = Operand(x, "ti", "x")
    square = SumProduct(
        "mean square", f"{ln}.ms", "t", (row, row), is_mean=True, symbol=r"\mathrm{{ms}}_{{{t}}}",
        says="How large the {n_i} numbers of {token_t} are: the average square.",
    )  # fmt: skip
    yield Node(axes_of("t"), square, "Mean square", part, block, stages=step(NORM, "mean square", ""))
    scale = RootMeanSquare(ln, x, c.eps)
    yield Node(axes_of("t"), scale, "Scale", part, block, stages=step(NORM, "scale"))
    divide = Divide(ln, x)
    yield Node(axes_of("tm"), divide, "Normalised", part, block, stages=step(NORM, "normalised"))
    says = "How much each entry is stretched."
    yield param(f"{ln}.w", "m", "w", "RMSNorm weight", part, says, block, row=NORM_WEIGHTS, is_first=True)
    stretch = SumProduct(
        "product", f"{ln}.out", "tm", (Operand(divide.out, "tm", r"\hat{x}"), Operand(f"{ln}.w", "m", "w")),
        symbol="y", says="Entry {m} gets its own learned stretch, the same for every token.",
    )  # fmt: skip
    yield Node(axes_of("tm"), stretch, "Normalised, weighted", part, block, stages=step(NORM, "× w"))


def _attention(c: LlamaConfig, a: str, x: str, out: str, n: int) -> Iterator[Node]:
    for letter in "qkv":
        yield from query_key_value(a, x, letter, "h" if letter == "q" else "g", n, has_bias=False)
    for letter, head, title in (("q", "h", "Query, turned"), ("k", "g", "Key, turned")):
        turn = Rotate(f"{a}.rot_{letter}", f"{a}.{letter}", letter, c.theta)
        stages = step(VECTORS, title.lower())
        yield Node(axes_of(f"t{head}c"), turn, title, "attn", n, stages=stages, is_key_side=letter == "k")
    yield from attend(a, f"{a}.rot_q", f"{a}.rot_k", "g", out, n, has_bias=False)


def _mlp(mlp: str, x: str, out: str, n: int) -> Iterator[Node]:
    made = (
        ("pre", "W_gate", "u", r"W_{\mathrm{gate}}", "Gates", "how far the gate of neuron {n} opens"),
        ("pre_linear", "W_in", "w", r"W_{\mathrm{in}}", "Neurons, before the gate", "what neuron {n} would pass on"),
    )
    for site, weight, symbol, latex, title, what in made:
        says = "A column is what a neuron looks for."
        yield param(f"{mlp}.{weight}", "in", latex, f"{title}: weights", "mlp", says, n, row=MLP_WEIGHTS)
        op = SumProduct(
            "linear", f"{mlp}.{site}", "tn", (Operand(x, "ti", "y"), Operand(f"{mlp}.{weight}", "in", latex)),
            symbol=symbol, says=f"From {{token_t}}'s row: {what}. {{n_i}} numbers times a column of weights.",
        )  # fmt: skip
        yield Node(axes_of("tn"), op, title, "mlp", n, stages=step(NEURON, title.lower()))
    yield Node(
        axes_of("tn"), GatedSilu(mlp), "Neurons, after the gate", "mlp", n, stages=step(NEURON, "after the gate"),
        switch="neuron {}",
    )  # fmt: skip
    yield from narrowed(mlp, out, n, has_bias=False)
