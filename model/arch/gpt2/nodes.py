"""Every site and parameter of a GPT-2 in the order they are computed."""

from __future__ import annotations

from collections.abc import Iterator

from model.arch.base import Node
from model.arch.gpt2.config import GPT2Config
from model.ops.activation import Gelu, Relu
from model.ops.embedding import Lookup, Parameter, PositionRow, Tied, Tokens
from model.ops.linear import Operand, PartialSums, SumProduct, axes_of
from model.ops.loss import Loss, TokenLoss
from model.ops.norm import Affine, Mean, Normalize, NormOp, Scale, Variance
from model.ops.residual import Add
from model.ops.softmax import Exponential, LogProbabilities, MaskedScale, Probabilities, Weights


def nodes(c: GPT2Config) -> Iterator[Node]:
    """The nodes of a GPT-2 of this shape; parameters come just before the site that first reads them."""
    yield Node("tokens", ("pos",), Tokens(), "Token ids", "embed")
    yield _param("W_E", "vm", "W_E", "Embedding table", "embed", "A row of numbers for each token of the vocabulary.")
    position_says = "A row of numbers for each position."
    yield Node(
        "W_pos", ("n_ctx", "d_model"), Parameter("W_pos", r"W_{\mathrm{pos}}", position_says),
        "Position table", "embed", is_parameter=True,
    )  # fmt: skip
    yield Node("embed", axes_of("tm"), Lookup(), "Token embedding", "embed")
    yield Node("pos_embed", axes_of("tm"), PositionRow(), "Position embedding", "embed")
    for n in range(c.n_layer):
        yield from _block(c, n)
    yield from _norm(c, "ln_final", f"blocks.{c.n_layer - 1}.resid_post", "ln_final", None)
    yield Node("W_U", ("d_model", "d_vocab"), Tied(), "Unembedding table", "out", is_parameter=True)
    unembed = SumProduct(
        "unembed", "logits", "tv", (Operand("ln_final.out", "ti", "y"), Operand("W_E", "vi", "W_E")),
        symbol=r"\mathrm{{logit}}_{{{t},{v}}}",
        says="How well {token_t}'s final row of {n_i} numbers matches the row of {entry}: "
        "multiply pair by pair, then add.",
    )  # fmt: skip
    yield Node("logits", axes_of("tv"), unembed, "Logits", "out")
    yield Node("probs", axes_of("tv"), Probabilities(), "Probabilities", "out")
    yield Node("log_probs", axes_of("tv"), LogProbabilities(), "Log-probabilities", "out")
    yield Node("loss_per_token", ("pos",), TokenLoss(), "Loss of each token", "out")
    yield Node("loss", (), Loss(), "Loss", "out")


def _block(c: GPT2Config, n: int) -> Iterator[Node]:
    b = f"blocks.{n}"
    yield Node(f"{b}.resid_pre", axes_of("tm"), _stream_in(n), "Residual stream, before", "stream", n)
    yield from _norm(c, f"{b}.ln1", f"{b}.resid_pre", "ln1", n)
    yield from _attention(f"{b}.attn", f"{b}.ln1.out", f"{b}.attn_out", n)
    middle = _joined(
        c, f"{b}.resid_mid", "x'", {f"{b}.resid_pre": "x"}, {f"{b}.attn_out": r"\mathrm{attn}"},
        "Attention's update is added to what {token} carried into the block.",
    )  # fmt: skip
    yield Node(f"{b}.resid_mid", axes_of("tm"), middle, "Residual stream, after attention", "stream", n)
    yield from _norm(c, f"{b}.ln2", f"{b}.resid_mid", "ln2", n)
    yield from _mlp(c, f"{b}.mlp", f"{b}.ln2.out", f"{b}.mlp_out", n)
    after = _joined(
        c, f"{b}.resid_post", "x''", {f"{b}.resid_mid": "x'"}, {f"{b}.mlp_out": r"\mathrm{mlp}"},
        "The feed-forward network's update is added to what {token} carried.",
    )  # fmt: skip
    yield Node(f"{b}.resid_post", axes_of("tm"), after, "Residual stream, after", "stream", n)


def _joined(c: GPT2Config, out: str, symbol: str, stream: dict[str, str], update: dict[str, str], says: str) -> Add:
    """What a block hands on: the stream and an update added, or the update alone."""
    if c.adds:
        return Add(out, symbol, stream | update, says)
    return Add(out, symbol, update, "The addition is left out in this run: what was found takes the row's place.")


def _stream_in(n: int) -> Add:
    if n:
        before = f"blocks.{n - 1}.resid_post"
        says = f"The same number that block {n - 1} handed on for {{token}}."
        return Add(f"blocks.{n}.resid_pre", "x", {before: r"x''"}, says)
    parts = {"embed": "e", "pos_embed": r"\mathrm{pos}"}
    return Add("blocks.0.resid_pre", "x", parts, "What {token} is, plus where it stands.")


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
    yield _param(f"{ln}.w", "m", "w", "LayerNorm weight", part, "How much each entry is stretched.", block)
    yield _param(f"{ln}.b", "m", "b", "LayerNorm bias", part, "How much each entry is shifted.", block)
    yield Node(f"{ln}.out", axes_of("tm"), Affine(ln, x), "Normalised, weighted", part, block)


def _attention(a: str, x: str, out: str, n: int) -> Iterator[Node]:
    asks = {
        "q": ("Query", "queries", "what {token_t} looks for"),
        "k": ("Key", "keys", "what {token_t} can be matched on"),
        "v": ("Value", "values", "what {token_t} hands over"),
    }
    for letter, (title, several, what) in asks.items():
        big = letter.upper()
        weight, bias = f"W_{big}", f"b_{big}"
        yield _param(f"{a}.{weight}", "hic", weight, f"{title} weights", "attn", f"Makes {several}.", n)
        yield _param(f"{a}.{bias}", "hc", bias, f"{title} bias", "attn", f"Added to every {title.lower()}.", n)
        op = SumProduct(
            "linear", f"{a}.{letter}", "thc", (Operand(x, "ti", "y"), Operand(f"{a}.{weight}", "hic", weight)),
            bias=Operand(f"{a}.{bias}", "hc", bias), symbol=letter,
            says=f"Entry {{c}} of {what} in head {{h}}: "
            "its row of {n_i} numbers times one column of weights, plus a bias.",
        )  # fmt: skip
        yield Node(f"{a}.{letter}", axes_of("thc"), op, title, "attn", n)
    dot = SumProduct(
        "dot", f"{a}.qk", "hqk", (Operand(f"{a}.q", "qhc", "q"), Operand(f"{a}.k", "khc", "k")),
        symbol=r"q_{{{q},{h}}} \cdot k_{{{k},{h}}}",
        says="{token_q} asks with a query of {n_c} numbers; {token_k} answers with a key of {n_c}. "
        "Multiply them pair by pair, then add.",
    )  # fmt: skip
    yield Node(f"{a}.qk", axes_of("hqk"), dot, "Query · key", "attn", n)
    yield Node(f"{a}.scores", axes_of("hqk"), MaskedScale(a), "Scores", "attn", n)
    yield Node(f"{a}.exp", axes_of("hqk"), Exponential(a), "Exponentials", "attn", n)
    yield Node(f"{a}.pattern", axes_of("hqk"), Weights(a), "Attention weights", "attn", n)
    average = SumProduct(
        "weighted average", f"{a}.z", "qhc", (Operand(f"{a}.pattern", "hqk", "a"), Operand(f"{a}.v", "khc", "v")),
        symbol="z", says="Head {h}'s mix for {token_q}: entry {c} of every token's value, each counted by its weight.",
    )  # fmt: skip
    yield Node(f"{a}.z", ("pos", "head", "d_head"), average, "Mixed values", "attn", n)
    yield _param(f"{a}.W_O", "hcm", "W_O", "Output weights", "attn", "Join the heads and write into the stream.", n)
    yield _param(f"{a}.b_O", "m", "b_O", "Output bias", "attn", "Added to attention's output.", n)
    z, w_o = Operand(f"{a}.z", "thc", "z"), Operand(f"{a}.W_O", "hcm", "W_O")
    share = PartialSums(
        "linear", f"{a}.result", "thm", (z, w_o), symbol="r",
        says="What head {h} alone writes into entry {m} of {token_t}'s row.",
    )  # fmt: skip
    yield Node(f"{a}.result", axes_of("thm"), share, "One head's share", "attn", n)
    joined = SumProduct(
        "linear", out, "tm", (z, w_o), bias=Operand(f"{a}.b_O", "m", "b_O"), symbol=r"\mathrm{{attn}}_{{{t},{m}}}",
        says="All heads' mixes for {token_t}, each number times its output weight, plus a bias.",
        subtotal=Operand(f"{a}.result", "thm", "r"),
    )  # fmt: skip
    yield Node(out, axes_of("tm"), joined, "Attention's update", "attn", n)


def _mlp(c: GPT2Config, mlp: str, x: str, out: str, n: int) -> Iterator[Node]:
    w_in, w_out = r"W_{\mathrm{in}}", r"W_{\mathrm{out}}"
    yield _param(f"{mlp}.W_in", "in", w_in, "Widening weights", "mlp", "A column is what a neuron looks for.", n)
    yield _param(f"{mlp}.b_in", "n", r"b_{\mathrm{in}}", "Widening bias", "mlp", "How eager each neuron is.", n)
    widen = SumProduct(
        "linear", f"{mlp}.pre", "tn", (Operand(x, "ti", "y"), Operand(f"{mlp}.W_in", "in", w_in)),
        bias=Operand(f"{mlp}.b_in", "n", r"b_{\mathrm{in}}"), symbol="u",
        says="How well {token_t}'s row matches what neuron {n} looks for: "
        "{n_i} numbers times a column of weights, plus a bias.",
    )  # fmt: skip
    yield Node(f"{mlp}.pre", axes_of("tn"), widen, "Neurons, before the bend", "mlp", n)
    bend = Relu(mlp) if c.act == "relu" else Gelu(mlp)
    yield Node(f"{mlp}.post", axes_of("tn"), bend, "Neurons, after the bend", "mlp", n)
    yield _param(f"{mlp}.W_out", "nm", w_out, "Narrowing weights", "mlp", "A row is what a neuron adds.", n)
    yield _param(f"{mlp}.b_out", "m", r"b_{\mathrm{out}}", "Narrowing bias", "mlp", "Added to every update.", n)
    narrow = SumProduct(
        "linear", out, "tm", (Operand(f"{mlp}.post", "tn", "g"), Operand(f"{mlp}.W_out", "nm", w_out)),
        bias=Operand(f"{mlp}.b_out", "m", r"b_{\mathrm{out}}"), symbol=r"\mathrm{{mlp}}_{{{t},{m}}}",
        says="Every neuron adds its own row, as strongly as it fired at {token_t}: "
        "this is entry {m} of the sum of {n_n} rows, plus a bias.",
    )  # fmt: skip
    yield Node(out, axes_of("tm"), narrow, "Feed-forward update", "mlp", n)


def _param(name: str, letters: str, symbol: str, title: str, part: str, says: str, block: int | None = None) -> Node:
    return Node(name, axes_of(letters), Parameter(name, symbol, says), title, part, block, is_parameter=True)
