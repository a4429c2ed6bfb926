"""Every site and parameter of a GPT-2 in the order they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from model.arch.base import Node
from model.arch.gpt2.config import GPT2Config
from model.arch.pieces import attend, blocks, embed, param, query_key_value, read_out, tokens
from model.ops.activation import Gelu, Relu
from model.ops.embedding import Parameter, PositionRow, Tied
from model.ops.linear import Operand, SumProduct, axes_of
from model.ops.norm import Affine, Mean, Normalize, NormOp, Scale, Variance


def nodes(c: GPT2Config) -> Iterator[Node]:
    """The nodes of a GPT-2 of this shape; parameters come just before the site that first reads them."""
    yield from tokens()
    position_says = "A row of numbers for each position."
    yield Node(
        "W_pos", ("n_ctx", "d_model"), Parameter("W_pos", r"W_{\mathrm{pos}}", position_says),
        "Position table", "embed", is_parameter=True,
    )  # fmt: skip
    yield embed()
    yield Node("pos_embed", axes_of("tm"), PositionRow(), "Position embedding", "embed")
    enter, says = {"embed": "e", "pos_embed": r"\mathrm{pos}"}, "What {token} is, plus where it stands."
    yield from blocks(c, enter, says, partial(_norm, c), _attention, partial(_mlp, c))
    yield Node("W_U", ("d_model", "d_vocab"), Tied(), "Unembedding table", "out", is_parameter=True)
    yield from read_out(Operand("W_E", "vi", "W_E"))


def _norm(c: GPT2Config, ln: str, x: str, part: str, block: int | None) -> Iterator[Node]:
    ops: list[tuple[type[NormOp], str, str]] = [
        (Mean, "", "Mean"),
        (Variance, "", "Variance"),
        (Scale, "", "Scale"),
        (Normalize, "m", "Normalised"),
    ]
    for op, extra, title in ops:
        node = op(ln, x, c.eps)
        yield Node(node.out, axes_of("t" + extra), node, title, part, block)
    yield param(f"{ln}.w", "m", "w", "LayerNorm weight", part, "How much each entry is stretched.", block)
    yield param(f"{ln}.b", "m", "b", "LayerNorm bias", part, "How much each entry is shifted.", block)
    yield Node(f"{ln}.out", axes_of("tm"), Affine(ln, x), "Normalised, weighted", part, block)


def _attention(a: str, x: str, out: str, n: int) -> Iterator[Node]:
    for letter in "qkv":
        yield from query_key_value(a, x, letter, "h", n, has_bias=True)
    yield from attend(a, f"{a}.q", f"{a}.k", "h", out, n, has_bias=True)


def _mlp(c: GPT2Config, mlp: str, x: str, out: str, n: int) -> Iterator[Node]:
    w_in, w_out = r"W_{\mathrm{in}}", r"W_{\mathrm{out}}"
    yield param(f"{mlp}.W_in", "in", w_in, "Widening weights", "mlp", "A column is what a neuron looks for.", n)
    yield param(f"{mlp}.b_in", "n", r"b_{\mathrm{in}}", "Widening bias", "mlp", "How eager each neuron is.", n)
    widen = SumProduct(
        "linear", f"{mlp}.pre", "tn", (Operand(x, "ti", "y"), Operand(f"{mlp}.W_in", "in", w_in)),
        bias=Operand(f"{mlp}.b_in", "n", r"b_{\mathrm{in}}"), symbol="u",
        says="How well {token_t}'s row matches what neuron {n} looks for: "
        "{n_i} numbers times a column of weights, plus a bias.",
    )  # fmt: skip
    yield Node(f"{mlp}.pre", axes_of("tn"), widen, "Neurons, before the bend", "mlp", n)
    bend = Relu(mlp) if c.act == "relu" else Gelu(mlp)
    yield Node(f"{mlp}.post", axes_of("tn"), bend, "Neurons, after the bend", "mlp", n)
    yield param(f"{mlp}.W_out", "nm", w_out, "Narrowing weights", "mlp", "A row is what a neuron adds.", n)
    yield param(f"{mlp}.b_out", "m", r"b_{\mathrm{out}}", "Narrowing bias", "mlp", "Added to every update.", n)
    narrow = SumProduct(
        "linear", out, "tm", (Operand(f"{mlp}.post", "tn", "g"), Operand(f"{mlp}.W_out", "nm", w_out)),
        bias=Operand(f"{mlp}.b_out", "m", r"b_{\mathrm{out}}"), symbol=r"\mathrm{{mlp}}_{{{t},{m}}}",
        says="Every neuron adds its own row, as strongly as it fired at {token_t}: "
        "this is entry {m} of the sum of {n_n} rows, plus a bias.",
    )  # fmt: skip
    yield Node(out, axes_of("tm"), narrow, "Feed-forward update", "mlp", n)
