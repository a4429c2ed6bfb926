"""Nodes that several architectures have alike: the residual stream and its blocks, attention over heads, the ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from model.arch.base import Config, Node
from model.ops.embedding import Lookup, Parameter, Tokens
from model.ops.linear import Operand, PartialSums, SumProduct, axes_of
from model.ops.loss import Loss, TokenLoss
from model.ops.residual import Add
from model.ops.softmax import Exponential, LogProbabilities, MaskedScale, Probabilities, Weights

NormNodes = Callable[[str, str, str, int | None], Iterator[Node]]  # prefix of its sites, what it reads, part, block
BranchNodes = Callable[[str, str, str, int], Iterator[Node]]  # prefix of its sites, what it reads, what it makes, block


def param(name: str, letters: str, symbol: str, title: str, part: str, says: str, block: int | None = None) -> Node:
    """A learned tensor."""
    return Node(name, axes_of(letters), Parameter(name, symbol, says), title, part, block, is_parameter=True)


def tokens() -> Iterator[Node]:
    """The token ids and the table that they pick their rows from."""
    yield Node("tokens", ("pos",), Tokens(), "Token ids", "embed")
    yield param("W_E", "vm", "W_E", "Embedding table", "embed", "A row of numbers for each token of the vocabulary.")


def embed() -> Node:
    """The rows that the tokens pick."""
    return Node("embed", axes_of("tm"), Lookup(), "Token embedding", "embed")


def blocks(
    c: Config, enter: Mapping[str, str], says: str, norm: NormNodes, attention: BranchNodes, mlp: BranchNodes
) -> Iterator[Node]:
    """All blocks and the final norm. `enter` maps what adds up to the first block's stream to its LaTeX symbols."""
    for n in range(c.n_layer):
        b = f"blocks.{n}"
        first = Add(f"{b}.resid_pre", "x", dict(enter), says) if n == 0 else _handed_on(n)
        yield Node(f"{b}.resid_pre", axes_of("tm"), first, "Residual stream, before", "stream", n)
        yield from norm(f"{b}.ln1", f"{b}.resid_pre", "ln1", n)
        yield from attention(f"{b}.attn", f"{b}.ln1.out", f"{b}.attn_out", n)
        middle = _joined(
            c, f"{b}.resid_mid", "x'", {f"{b}.resid_pre": "x"}, {f"{b}.attn_out": r"\mathrm{attn}"},
            "Attention's update is added to what {token} carried into the block.",
        )  # fmt: skip
        yield Node(f"{b}.resid_mid", axes_of("tm"), middle, "Residual stream, after attention", "stream", n)
        yield from norm(f"{b}.ln2", f"{b}.resid_mid", "ln2", n)
        yield from mlp(f"{b}.mlp", f"{b}.ln2.out", f"{b}.mlp_out", n)
        after = _joined(
            c, f"{b}.resid_post", "x''", {f"{b}.resid_mid": "x'"}, {f"{b}.mlp_out": r"\mathrm{mlp}"},
            "The feed-forward network's update is added to what {token} carried.",
        )  # fmt: skip
        yield Node(f"{b}.resid_post", axes_of("tm"), after, "Residual stream, after", "stream", n)
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
    yield param(f"{a}.{weight}", f"{head}ic", weight, f"{title} weights", "attn", f"Makes {several}.", n)
    if has_bias:
        yield param(f"{a}.{bias}", f"{head}c", bias, f"{title} bias", "attn", f"Added to every {title.lower()}.", n)
    op = SumProduct(
        "linear", f"{a}.{letter}", f"t{head}c", (Operand(x, "ti", "y"), Operand(f"{a}.{weight}", f"{head}ic", weight)),
        bias=Operand(f"{a}.{bias}", f"{head}c", bias) if has_bias else None, symbol=letter,
        says=f"Entry {{c}} of {what} in head {{{head}}}: "
        f"its row of {{n_i}} numbers times one column of weights{', plus a bias' if has_bias else ''}.",
    )  # fmt: skip
    yield Node(f"{a}.{letter}", axes_of(f"t{head}c"), op, title, "attn", n)


def attend(a: str, q: str, k: str, kv_head: str, out: str, n: int, *, has_bias: bool) -> Iterator[Node]:
    """From queries and keys to attention's update. `kv_head` is the letter of the axis of keys' and values' heads."""
    dot = SumProduct(
        "dot", f"{a}.qk", "hqk", (Operand(q, "qhc", "q"), Operand(k, f"k{kv_head}c", "k")),
        symbol=rf"q_{{{{{{q}},{{h}}}}}} \cdot k_{{{{{{k}},{{{kv_head}}}}}}}",
        says="{token_q} asks with a query of {n_c} numbers; {token_k} answers with a key of {n_c}. "
        "Multiply them pair by pair, then add.",
    )  # fmt: skip
    yield Node(f"{a}.qk", axes_of("hqk"), dot, "Query · key", "attn", n)
    yield Node(f"{a}.scores", axes_of("hqk"), MaskedScale(a), "Scores", "attn", n)
    yield Node(f"{a}.exp", axes_of("hqk"), Exponential(a), "Exponentials", "attn", n)
    yield Node(f"{a}.pattern", axes_of("hqk"), Weights(a), "Attention weights", "attn", n)
    average = SumProduct(
        "weighted average", f"{a}.z", "qhc",
        (Operand(f"{a}.pattern", "hqk", "a"), Operand(f"{a}.v", f"k{kv_head}c", "v")),
        symbol="z", says="Head {h}'s mix for {token_q}: entry {c} of every token's value, each counted by its weight.",
    )  # fmt: skip
    yield Node(f"{a}.z", ("pos", "head", "d_head"), average, "Mixed values", "attn", n)
    yield param(f"{a}.W_O", "hcm", "W_O", "Output weights", "attn", "Join the heads and write into the stream.", n)
    if has_bias:
        yield param(f"{a}.b_O", "m", "b_O", "Output bias", "attn", "Added to attention's output.", n)
    z, w_o = Operand(f"{a}.z", "thc", "z"), Operand(f"{a}.W_O", "hcm", "W_O")
    share = PartialSums(
        "linear", f"{a}.result", "thm", (z, w_o), symbol="r",
        says="What head {h} alone writes into entry {m} of {token_t}'s row.",
    )  # fmt: skip
    yield Node(f"{a}.result", axes_of("thm"), share, "One head's share", "attn", n)
    joined = SumProduct(
        "linear", out, "tm", (z, w_o), bias=Operand(f"{a}.b_O", "m", "b_O") if has_bias else None,
        symbol=r"\mathrm{{attn}}_{{{t},{m}}}",
        says="All heads' mixes for {token_t}, each number times its output weight"
        f"{', plus a bias' if has_bias else ''}.",
        subtotal=Operand(f"{a}.result", "thm", "r"),
    )  # fmt: skip
    yield Node(out, axes_of("tm"), joined, "Attention's update", "attn", n)


def read_out(unembedding: Operand) -> Iterator[Node]:
    """From the final norm's output to the loss. `unembedding` is the table, with the letters i and v."""
    unembed = SumProduct(
        "unembed", "logits", "tv", (Operand("ln_final.out", "ti", "y"), unembedding),
        symbol=r"\mathrm{{logit}}_{{{t},{v}}}",
        says="How well {token_t}'s final row of {n_i} numbers matches the row of {entry}: "
        "multiply pair by pair, then add.",
    )  # fmt: skip
    yield Node("logits", axes_of("tv"), unembed, "Logits", "out")
    yield Node("probs", axes_of("tv"), Probabilities(), "Probabilities", "out")
    yield Node("log_probs", axes_of("tv"), LogProbabilities(), "Log-probabilities", "out")
    yield Node("loss_per_token", ("pos",), TokenLoss(), "Loss of each token", "out")
    yield Node("loss", (), Loss(), "Loss", "out")
