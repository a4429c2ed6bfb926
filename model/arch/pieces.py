"""Nodes that several architectures have alike: the residual stream and its blocks, attention over heads, the ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from model.arch.base import Config, Node, Stage
from model.ops.embedding import Lookup, Parameter, Tokens
from model.ops.linear import Add, Operand, PartialSums, SumProduct, axes_of
from model.ops.loss import Loss, TokenLoss
from model.ops.softmax import Exponential, LogProbabilities, MaskedScale, Probabilities, Weights

NormNodes = Callable[[str, str, str, int | None], Iterator[Node]]  # prefix of its sites, what it reads, part, block
BranchNodes = Callable[[str, str, str, int], Iterator[Node]]  # prefix of its sites, what it reads, what it makes, block


# Rows of steps.
BEGINNING, STREAM = "How the stream begins", "The residual stream"
SCORES, VECTORS = "Stages of attention", "Vectors of a head"
NEURON, TO_LOSS = "Steps of a neuron", "From logits to the loss"
TABLES, WEIGHTS, BIASES = "Tables", "Weights of attention", "Biases of attention"
MLP_WEIGHTS, NORM_WEIGHTS = "Weights of the feed-forward network", "Parameters of LayerNorm"


def step(row: str, words: str, sign: str = "→", how: str = "") -> tuple[Stage]:
    """A node's one step in a row."""
    return (Stage(row, words, sign, how),)


def param(
    name: str, letters: str, symbol: str, title: str, part: str, says: str, block: int | None = None,
    *, row: str = "", is_first: bool = False, heading: str = "",
) -> Node:  # fmt: skip
    """A learned tensor, in a row of its like if it has any."""
    stages = step(row, name.rsplit(".", 1)[-1], "" if is_first else "·") if row else ()
    return Node(
        axes_of(letters), Parameter(name, symbol, says), title, part, block, is_parameter=True, word=heading,
        heading=heading, stages=stages,
    )  # fmt: skip


def tokens() -> Iterator[Node]:
    """The token ids and the table that they pick their rows from."""
    yield Node(("pos",), Tokens(), "Token ids", "embed", word="token", stages=step(BEGINNING, "token ids", ""))
    says = "A row of numbers for each token of the vocabulary."
    yield param("W_E", "vm", "W_E", "Embedding table", "embed", says, row=TABLES, is_first=True)


def embed() -> Node:
    """The rows that the tokens pick."""
    return Node(
        axes_of("tm"), Lookup(), "Token embedding", "embed", word="embedding",
        as_reader="the embedding of tokens in the text", use="as embedding", stages=step(BEGINNING, "embedding"),
    )  # fmt: skip


def blocks(
    c: Config, enter: Mapping[str, str], says: str, norm: NormNodes, attention: BranchNodes, mlp: BranchNodes
) -> Iterator[Node]:
    """All blocks and the final norm. `enter` maps what adds up to the first block's stream to its LaTeX symbols."""
    for n in range(c.n_layer):
        b = f"blocks.{n}"
        first = Add(f"{b}.resid_pre", "x", dict(enter), says) if n == 0 else _handed_on(n)
        begins = (Stage(BEGINNING, "stream", "=", prefix=""),) if n == 0 else ()
        yield Node(
            axes_of("tm"), first, "Residual stream, before", "stream", n, word="stream",
            as_reader="the next block’s stream", stages=(*step(STREAM, "stream in", ""), *begins),
        )  # fmt: skip
        yield from norm(f"{b}.ln1", f"{b}.resid_pre", "ln1", n)
        yield from attention(f"{b}.attn", f"{b}.ln1.out", f"{b}.attn_out", n)
        middle = _joined(
            c, f"{b}.resid_mid", "x'", {f"{b}.resid_pre": "x"}, {f"{b}.attn_out": r"\mathrm{attn}"},
            "Attention's update is added to what {token} carried into the block.",
        )  # fmt: skip
        yield Node(
            axes_of("tm"), middle, "Residual stream, after attention", "stream", n, word="stream",
            as_reader="the stream, straight on", stages=step(STREAM, "stream", "="),
        )  # fmt: skip
        yield from norm(f"{b}.ln2", f"{b}.resid_mid", "ln2", n)
        yield from mlp(f"{b}.mlp", f"{b}.ln2.out", f"{b}.mlp_out", n)
        after = _joined(
            c, f"{b}.resid_post", "x''", {f"{b}.resid_mid": "x'"}, {f"{b}.mlp_out": r"\mathrm{mlp}"},
            "The feed-forward network's update is added to what {token} carried.",
        )  # fmt: skip
        yield Node(
            axes_of("tm"), after, "Residual stream, after", "stream", n, word="stream",
            as_reader="the stream, straight on", stages=step(STREAM, "stream out", "="),
        )  # fmt: skip
    yield from norm("ln_final", f"blocks.{c.n_layer - 1}.resid_post", "ln_final", None)


def _handed_on(n: int) -> Add:
    says = f"The same number that block {n - 1} handed on for {{token}}."
    return Add(f"blocks.{n}.resid_pre", "x", {f"blocks.{n - 1}.resid_post": r"x''"}, says)


def _joined(c: Config, out: str, symbol: str, stream: dict[str, str], update: dict[str, str], says: str) -> Add:
    """What a block hands on: the stream and an update added, or the update alone."""
    if c.adds:
        return Add(out, symbol, stream | update, says)
    return Add(out, symbol, update, "The addition is left out in this run: what was found takes the row's place.")


ASKS = {
    "q": ("Query", "queries", "what {token_t} looks for"),
    "k": ("Key", "keys", "what {token_t} can be matched on"),
    "v": ("Value", "values", "what {token_t} hands over"),
}


def query_key_value(a: str, x: str, letter: str, head: str, n: int, *, has_bias: bool) -> Iterator[Node]:
    """The sites `q`, `k` or `v`, with the weights that make them from x. `head` is the letter of their head axis."""
    title, several, what = ASKS[letter]
    weight, bias = f"W_{letter.upper()}", f"b_{letter.upper()}"
    word, is_first = title.lower(), letter == "q"
    yield param(
        f"{a}.{weight}", f"{head}ic", weight, f"{title} weights", "attn", f"Makes {several}.", n,
        row=WEIGHTS, is_first=is_first,
    )  # fmt: skip
    if has_bias:
        yield param(
            f"{a}.{bias}", f"{head}c", bias, f"{title} bias", "attn", f"Added to every {word}.", n,
            row=BIASES, is_first=is_first,
        )  # fmt: skip
    op = SumProduct(
        "linear", f"{a}.{letter}", f"t{head}c", (Operand(x, "ti", "y"), Operand(f"{a}.{weight}", f"{head}ic", weight)),
        bias=Operand(f"{a}.{bias}", f"{head}c", bias) if has_bias else None, symbol=letter,
        says=f"Entry {{c}} of {what} in head {{{head}}}: "
        f"its row of {{n_i}} numbers times one column of weights{', plus a bias' if has_bias else ''}.",
    )  # fmt: skip
    yield Node(
        axes_of(f"t{head}c"), op, title, "attn", n, word=word, as_reader=f"the {several}",
        stages=step(VECTORS, word, "" if is_first else "·"), is_key_side=not is_first,
    )  # fmt: skip


def attend(a: str, q: str, k: str, kv_head: str, out: str, n: int, *, has_bias: bool) -> Iterator[Node]:
    """From queries and keys to attention's update. `kv_head` is the letter of the axis of keys' and values' heads."""
    yield from _scores(a, q, k, kv_head, n)
    average = SumProduct(
        "weighted average", f"{a}.z", "qhc",
        (Operand(f"{a}.pattern", "hqk", "a"), Operand(f"{a}.v", f"k{kv_head}c", "v")),
        symbol="z", says="Head {h}'s mix for {token_q}: entry {c} of every token's value, each counted by its weight.",
    )  # fmt: skip
    yield Node(
        ("pos", "head", "d_head"), average, "Mixed values", "attn", n, word="mix",
        as_reader="the heads’ mixes of values", stages=step(VECTORS, "mix of values"), switch="head {}",
    )  # fmt: skip
    yield from _joined_heads(a, out, n, has_bias=has_bias)


def _scores(a: str, q: str, k: str, kv_head: str, n: int) -> Iterator[Node]:
    """From queries and keys to attention's weights."""
    dot = SumProduct(
        "dot", f"{a}.qk", "hqk", (Operand(q, "qhc", "q"), Operand(k, f"k{kv_head}c", "k")),
        symbol=rf"q_{{{{{{q}},{{h}}}}}} \cdot k_{{{{{{k}},{{{kv_head}}}}}}}",
        says="{token_q} asks with a query of {n_c} numbers; {token_k} answers with a key of {n_c}. "
        "Multiply them pair by pair, then add.",
    )  # fmt: skip
    yield Node(
        axes_of("hqk"), dot, "Query · key", "attn", n, word="q·k", as_reader="the query · key products",
        stages=step(SCORES, "query · key", ""),
    )  # fmt: skip
    yield Node(
        axes_of("hqk"), MaskedScale(a), "Scores", "attn", n, word="score", as_reader="the score",
        stages=step(SCORES, "÷ √{d_head}, masked"), onward="÷ √{d_head}",
    )  # fmt: skip
    yield Node(
        axes_of("hqk"), Exponential(a), "Exponentials", "attn", n, as_reader="the exponential of the score",
        stages=step(SCORES, "exponential"), onward="e^(s − max)", span="unit",
    )  # fmt: skip
    yield Node(
        axes_of("hqk"), Weights(a), "Attention weights", "attn", n, word="weight", as_reader="the attention weights",
        stages=step(SCORES, "weights"), onward="weight", span="share",
    )  # fmt: skip


def _joined_heads(a: str, out: str, n: int, *, has_bias: bool) -> Iterator[Node]:
    """From the heads' mixes to attention's update."""
    says = "Join the heads and write into the stream."
    yield param(f"{a}.W_O", "hcm", "W_O", "Output weights", "attn", says, n, row=WEIGHTS)
    if has_bias:
        yield param(f"{a}.b_O", "m", "b_O", "Output bias", "attn", "Added to attention's output.", n, row=BIASES)
    z, w_o = Operand(f"{a}.z", "thc", "z"), Operand(f"{a}.W_O", "hcm", "W_O")
    share = PartialSums(
        "linear", f"{a}.result", "thm", (z, w_o), Operand(out, "tm", r"\mathrm{attn}"), symbol="r",
        says="What head {h} alone writes into entry {m} of {token_t}'s row.",
    )  # fmt: skip
    yield Node(
        axes_of("thm"), share, "One head's share", "attn", n, word="head’s share", stages=step(VECTORS, "head’s share")
    )
    joined = SumProduct(
        "linear", out, "tm", (z, w_o), bias=Operand(f"{a}.b_O", "m", "b_O") if has_bias else None,
        symbol=r"\mathrm{{attn}}_{{{t},{m}}}",
        says="All heads' mixes for {token_t}, each number times its output weight"
        f"{', plus a bias' if has_bias else ''}.",
        subtotal=Operand(f"{a}.result", "thm", "r"),
    )  # fmt: skip
    yield Node(
        axes_of("tm"), joined, "Attention's update", "attn", n, word="attention", as_reader="attention’s output",
        stages=step(STREAM, "attention", "+"), switch="the attention",
    )  # fmt: skip


def narrowed(mlp: str, out: str, n: int, *, has_bias: bool) -> Iterator[Node]:
    """From the neurons to the feed-forward network's update."""
    w_out, b_out = r"W_{\mathrm{out}}", r"b_{\mathrm{out}}"
    says = "A row is what a neuron adds."
    yield param(f"{mlp}.W_out", "nm", w_out, "Narrowing weights", "mlp", says, n, row=MLP_WEIGHTS)
    if has_bias:
        says = "Added to every update."
        yield param(f"{mlp}.b_out", "m", b_out, "Narrowing bias", "mlp", says, n, row=MLP_WEIGHTS)
    narrow = SumProduct(
        "linear", out, "tm", (Operand(f"{mlp}.post", "tn", "g"), Operand(f"{mlp}.W_out", "nm", w_out)),
        bias=Operand(f"{mlp}.b_out", "m", b_out) if has_bias else None, symbol=r"\mathrm{{mlp}}_{{{t},{m}}}",
        says="Every neuron adds its own row, as strongly as it fired at {token_t}: "
        f"this is entry {{m}} of the sum of {{n_n}} rows{', plus a bias' if has_bias else ''}.",
    )  # fmt: skip
    yield Node(
        axes_of("tm"), narrow, "Feed-forward update", "mlp", n, word="feed-forward",
        as_reader="the feed-forward output", stages=step(STREAM, "feed-forward", "+"),
        switch="the feed-forward network",
    )  # fmt: skip


def read_out(unembedding: Operand) -> Iterator[Node]:
    """From the final norm's output to the loss. `unembedding` is the table, with the letters i and v."""
    unembed = SumProduct(
        "unembed", "logits", "tv", (Operand("ln_final.out", "ti", "y"), unembedding),
        symbol=r"\mathrm{{logit}}_{{{t},{v}}}",
        says="How well {token_t}'s final row of {n_i} numbers matches the row of {entry}: "
        "multiply pair by pair, then add.",
    )  # fmt: skip
    yield Node(
        axes_of("tv"), unembed, "Logits", "out", word="logit", as_reader="the logits", use="as unembedding",
        stages=step(TO_LOSS, "logits", ""), predicts=True,
    )  # fmt: skip
    yield Node(
        axes_of("tv"), Probabilities(), "Probabilities", "out", word="prob", as_reader="the probabilities",
        stages=step(TO_LOSS, "probabilities"), onward="probability", span="share", predicts=True,
    )  # fmt: skip
    yield Node(
        axes_of("tv"), LogProbabilities(), "Log-probabilities", "out", word="log prob",
        as_reader="the log-probabilities", stages=step(TO_LOSS, "log-probabilities"), predicts=True,
    )  # fmt: skip
    yield Node(
        ("pos",), TokenLoss(), "Loss of each token", "out", word="token loss", as_reader="the loss at this position",
        stages=step(TO_LOSS, "loss per token"),
    )  # fmt: skip
    yield Node((), Loss(), "Loss", "out", as_reader="the loss itself", stages=step(TO_LOSS, "loss"))
