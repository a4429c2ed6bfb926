"""Every site and parameter of a GPT-2 in the order they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from model.arch.base import Node
from model.arch.gpt2.config import GPT2Config
from model.arch.pieces import (
    BEGINNING,
    MLP_WEIGHTS,
    NEURON,
    NORM_WEIGHTS,
    TABLES,
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
from model.ops.activation import ACTIVATIONS
from model.ops.embedding import Parameter, PositionRow, Tied
from model.ops.linear import Operand, SumProduct, axes_of
from model.ops.norm import Affine, Mean, Normalize, NormOp, Scale, Variance


def nodes(c: GPT2Config) -> Iterator[Node]:
    """The nodes of a GPT-2 of this shape; parameters come just before the site that first reads them."""
    yield from tokens()
    position_says = "A row of numbers for each position."
    yield Node(
        ("n_ctx", "d_model"), Parameter("W_pos", r"W_{\mathrm{pos}}", position_says), "Position table", "embed",
        is_parameter=True, stages=step(TABLES, "W_pos", "·"),
    )  # fmt: skip
    yield embed()
    yield Node(
        axes_of("tm"), PositionRow(), "Position embedding", "embed", word="position", as_reader="the position’s vector",
        stages=step(BEGINNING, "position", "+"),
    )  # fmt: skip
    enter, says = {"embed": "e", "pos_embed": r"\mathrm{pos}"}, "What {token} is, plus where it stands."
    yield from blocks(c, enter, says, partial(_norm, c), _attention, partial(_mlp, c))
    yield Node(
        ("d_model", "d_vocab"), Tied("GPT-2"), "Unembedding table", "out", is_parameter=True,
        stages=step(TABLES, "W_U", "·"),
    )  # fmt: skip
    yield from read_out(Operand("W_E", "vi", "W_E"))


NORM = "Steps of LayerNorm"


def _norm(c: GPT2Config, ln: str, x: str, part: str, block: int | None) -> Iterator[Node]:
    ops: list[tuple[type[NormOp], str, str, str, str]] = [  # op, letters, title, how a sentence speaks of it, how made
        (Mean, "t", "Mean", "the mean of its LayerNorm", "of {d_model:,} numbers"),
        (Variance, "t", "Variance", "the variance of its LayerNorm", "average squared distance"),
        (Scale, "t", "Scale", "the scale of its LayerNorm", "√(variance + ε)"),
        (Normalize, "tm", "Normalised", "its LayerNorm’s normalised number", "(x − mean) ÷ scale"),
    ]
    for op_type, letters, title, reader, how in ops:
        op, word = op_type(ln, x, c.eps), title.lower()
        heading = op.site if op_type is Variance else f"{part}.{op.site}"
        yield Node(
            axes_of(letters), op, title, part, block, word=word, heading=heading, as_reader=reader,
            stages=step(NORM, word, "" if op_type is Mean else "→", how),
        )  # fmt: skip
    for letter, title, says in (("w", "weight", "stretched"), ("b", "bias", "shifted")):
        yield param(
            f"{ln}.{letter}", "m", letter, f"LayerNorm {title}", part, f"How much each entry is {says}.", block,
            row=NORM_WEIGHTS, is_first=letter == "w", heading=f"{part}.{letter}",
        )  # fmt: skip
    yield Node(
        axes_of("tm"), Affine(ln, x), "Normalised, weighted", part, block, word=f"{part}.out", heading=f"{part}.out",
        as_reader="its LayerNorm’s output", stages=step(NORM, "× w + b"), onward="× w + b",
    )  # fmt: skip


def _attention(a: str, x: str, out: str, n: int) -> Iterator[Node]:
    for letter in "qkv":
        yield from query_key_value(a, x, letter, "h", n, has_bias=True)
    yield from attend(a, f"{a}.q", f"{a}.k", "h", out, n, has_bias=True)


def _mlp(c: GPT2Config, mlp: str, x: str, out: str, n: int) -> Iterator[Node]:
    w_in = r"W_{\mathrm{in}}"
    learned = partial(param, part="mlp", block=n, row=MLP_WEIGHTS)
    says = "A column is what a neuron looks for."
    yield learned(f"{mlp}.W_in", "in", w_in, "Widening weights", says=says, is_first=True)
    yield learned(f"{mlp}.b_in", "n", r"b_{\mathrm{in}}", "Widening bias", says="How eager each neuron is.")
    widen = SumProduct(
        "linear", f"{mlp}.pre", "tn", (Operand(x, "ti", "y"), Operand(f"{mlp}.W_in", "in", w_in)),
        bias=Operand(f"{mlp}.b_in", "n", r"b_{\mathrm{in}}"), symbol="u",
        says="How well {token_t}'s row matches what neuron {n} looks for: "
        "{n_i} numbers times a column of weights, plus a bias.",
    )  # fmt: skip
    yield Node(
        axes_of("tn"), widen, "Neurons, before the bend", "mlp", n, word="neuron in", as_reader="the neurons",
        stages=step(NEURON, "before the bend", ""),
    )  # fmt: skip
    yield Node(
        axes_of("tn"), ACTIVATIONS[c.act](mlp), "Neurons, after the bend", "mlp", n, word="neuron",
        as_reader="the neuron’s output", stages=step(NEURON, "after the bend"), onward="after the bend",
        switch="neuron {}",
    )  # fmt: skip
    yield from narrowed(mlp, out, n, has_bias=True)
