"""What a number's tensor stands beside: the steps before and after it, each a link that keeps the place."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from app.render.links import Links
from app.render.places import moved
from model.address.parser import Address
from model.arch.base import Node
from model.runtime.run import Run

# Rows of (sign before it, last piece of the name, words). The words may use {d_head}.
ROWS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Stages of attention",
        (("", "qk", "query · key"), ("→", "scores", "÷ √{d_head}, masked"), ("→", "exp", "exponential"),
         ("→", "pattern", "weights")),
    ),
    (
        "Vectors of a head",
        (("", "q", "query"), ("·", "k", "key"), ("·", "v", "value"), ("→", "z", "mix of values"),
         ("→", "result", "head’s share")),
    ),
    (
        "Steps of LayerNorm",
        (("", "mean", "mean"), ("→", "var", "variance"), ("→", "scale", "scale"), ("→", "normalized", "normalised"),
         ("→", "out", "× w + b")),
    ),
    ("Steps of a neuron", (("", "pre", "before the bend"), ("→", "post", "after the bend"))),
    (
        "The residual stream",
        (("", "resid_pre", "stream in"), ("+", "attn_out", "attention"), ("=", "resid_mid", "stream"),
         ("+", "mlp_out", "feed-forward"), ("=", "resid_post", "stream out")),
    ),
    (
        "How the stream begins",
        (("", "tokens", "token ids"), ("→", "embed", "embedding"), ("+", "pos_embed", "position"),
         ("=", "blocks.0.resid_pre", "stream")),
    ),
    (
        "From logits to the loss",
        (("", "logits", "logits"), ("→", "probs", "probabilities"), ("→", "log_probs", "log-probabilities"),
         ("→", "loss_per_token", "loss per token"), ("→", "loss", "loss")),
    ),
    ("Weights of attention", (("", "W_Q", "W_Q"), ("·", "W_K", "W_K"), ("·", "W_V", "W_V"), ("·", "W_O", "W_O"))),
    ("Biases of attention", (("", "b_Q", "b_Q"), ("·", "b_K", "b_K"), ("·", "b_V", "b_V"), ("·", "b_O", "b_O"))),
    (
        "Weights of the feed-forward network",
        (("", "W_in", "W_in"), ("·", "b_in", "b_in"), ("·", "W_out", "W_out"), ("·", "b_out", "b_out")),
    ),
    ("Parameters of LayerNorm", (("", "w", "w"), ("·", "b", "b"))),
    ("Tables", (("", "W_E", "W_E"), ("·", "W_pos", "W_pos"), ("·", "W_U", "W_U"))),
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One step: the sign before it (“→”, “+” …) and its link."""

    sign: str
    link: Markup


def stages(run: Run, address: Address, cells: Links) -> tuple[str, tuple[Stage, ...]]:
    """The name of the row that the site is in and its steps; ("", ()) for a site that stands alone."""
    parent, short = _split(address.site)
    for name, row in ROWS:
        names = [piece for _, piece, _ in row]
        if short not in names or any(parent + piece not in run.model.graph for piece in names):
            continue
        found = tuple(Stage(sign, _link(run, address, cells, parent + piece, words)) for sign, piece, words in row)
        return name, found
    return "", ()


def _split(site: str) -> tuple[str, str]:
    head, dot, short = site.rpartition(".")
    return head + dot, short


def _link(run: Run, address: Address, cells: Links, site: str, words: str) -> Markup:
    is_here = site == address.site
    at = str(address) if is_here else moved(run, address, site)
    return cells.number(at, words.format(d_head=run.model.config.d_head), css="to", current=is_here)


# What a row of numbers becomes next, column by column: site -> (site after it, words in HTML) …
ONWARD: dict[str, tuple[tuple[str, str], ...]] = {
    "qk": (("scores", "÷ √{d_head}"), ("exp", "e<sup>s − max</sup>"), ("pattern", "weight")),
    "scores": (("exp", "e<sup>s − max</sup>"), ("pattern", "weight")),
    "exp": (("pattern", "weight"),),
    "pre": (("post", "after the bend"),),
    "normalized": (("out", "× w + b"),),
    "logits": (("probs", "probability"),),
}


def onward(run: Run, node: Node) -> list[tuple[str, str]]:
    """Sites of the same shape that a row of this site goes on to, with words in HTML."""
    parent, short = _split(node.name)
    following = [(parent + site, words.format(d_head=run.model.config.d_head)) for site, words in ONWARD.get(short, ())]
    return [(site, words) for site, words in following if site in run.model.graph]
