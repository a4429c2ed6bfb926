"""Lesson 1: a transformer from scratch. What its prose claims about the reader's run is measured here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.features.lessons import code
from app.features.lessons.base import Lesson, Section
from app.parts.base import Scene
from app.parts.follow import TOY
from app.parts.stream import length
from app.render.numbers import count
from app.request.state import DEFAULT_TEXT
from model import Run

# The example sentence ends after a word; what grows on from a text is shown on this one.
STORY = "Once upon a time, there was a little"


@dataclass(frozen=True)
class Look:
    """The strongest look back from the last token: a head, and the earlier position it looks at."""

    block: int
    head: int
    to: int
    is_target: bool


@dataclass(frozen=True)
class Facts:
    """What the prose says of this run. `top` and `runner` are token ids; `others` the likeliest but the target.

    `active` counts neurons of block 0 above zero at the last position, `neuron` is the strongest of them.
    `length_in` and `length_out` are expressions: the row's length before the first and after the last block.
    """

    last: int
    top: int
    runner: int | None
    target_is_top: bool
    is_sequence: bool
    look: Look | None
    others: tuple[int, ...]
    active: int
    neuron: int
    length_in: str
    length_out: str
    grows: bool
    d: int
    d_head: int
    d_mlp: int
    n_layer: int
    n_head: int
    vocab: int
    relu: bool


def facts(scene: Scene) -> Facts:
    run, c, last = scene.run, scene.model.config, scene.last
    best = [token for token, _ in run.top(4)]
    post = run.tensor("blocks.0.mlp.post")[last].numpy()
    first, final = "blocks.0.resid_pre", f"blocks.{c.n_layer - 1}.resid_post"
    return Facts(
        last=last,
        top=best[0],
        runner=best[1] if len(best) > 1 else None,
        target_is_top=run.target == best[0],
        is_sequence=run.is_sequence,
        look=strongest_look(run, has_start=scene.state.bos),
        others=tuple(token for token in best if token != run.target)[:3],
        active=int((post > 0).sum()),
        neuron=int(post.argmax()),
        length_in=length(f"{first}[{last},:]"),
        length_out=length(f"{final}[{last},:]"),
        grows=bool(run.tensor(final)[last].norm() > run.tensor(first)[last].norm()),
        d=c.d_model,
        d_head=c.d_head,
        d_mlp=c.d_mlp,
        n_layer=c.n_layer,
        n_head=c.n_head,
        vocab=c.d_vocab,
        relu=c.act == "relu",
    )


def strongest_look(run: Run, *, has_start: bool) -> Look | None:
    """The head and the earlier position with the largest weight from the last token, the start token left out."""
    first, last = int(has_start), run.n_pos - 1
    if last <= first:
        return None
    blocks = range(run.model.config.n_layer)
    rows = np.stack(  # copies: a view would hold every block's whole pattern
        [run[f"blocks.{b}.attn.pattern[:,{last},{first}:{last}]"].copy() for b in blocks]
    )
    block, head, key = (int(i) for i in np.unravel_index(int(rows.argmax()), rows.shape))
    return Look(block, head, key + first, run.tokens[key + first] == run.target and not run.is_sequence)


def extra(scene: Scene) -> dict[str, Any]:
    toy = scene.numbers_of(TOY)
    return {
        "toy": toy,
        "toy_top": toy.run.largest_logit(2),
        "toy_url": TOY.url(),
        "code": code.lines(),
        "default_text": DEFAULT_TEXT,
        "story": STORY,
    }


def glossary(scene: Scene) -> list[tuple[str, str, str]]:
    """Every symbol of the lesson, and its shape in this run."""
    c, n = scene.model.config, scene.run.n_pos
    d, h, k, wide, vocabulary = c.d_model, c.n_head, c.d_head, c.d_mlp, count(c.d_vocab)
    heads = f"{h} heads, each " if h > 1 else ""
    return [
        (r"W_E", "embedding table: a row for each token", f"{vocabulary} × {d}"),
        (r"W_{\mathrm{pos}}", "position table: a row for each position", f"{count(c.n_ctx)} × {d}"),
        (r"x", "the stream: a row for each position of the text", f"{n} × {d}"),
        (r"W_Q,\ W_K,\ W_V", "from rows to queries, keys, values", f"{heads}{d} × {k}"),
        (r"q,\ k,\ v", "query, key and value of one position in one head", f"{k}"),
        (r"d_k", "entries of a key", "one number"),
        (r"s_{ij}", "score: how well the query at i matches the key at j", f"{heads}{n} × {n}"),
        (r"a_{ij}", "weight: the share of its attention that i gives to j", f"{heads}{n} × {n}"),
        (r"M", "mask: 0 where j ≤ i, −∞ where j > i", f"{n} × {n}"),
        (r"z_i", "a head’s output: values averaged with the weights", f"{heads}{n} × {k}"),
        (r"W_O", "joins the heads", f"{h * k} × {d}"),
        (r"W_1,\ b_1", "widens: a pattern in each column", f"{d} × {wide}, {wide}"),
        (r"W_2,\ b_2", "narrows: a row to add for each pattern", f"{wide} × {d}, {d}"),
        (r"\mu,\ \sigma^2", "mean and variance of a row", "one number a row"),
        (r"\varepsilon", "keeps the root from being zero", "one number"),
        (r"\gamma,\ \beta", "scale and shift after normalising", f"{d}"),
        (r"h", "the last position’s final row", f"{d}"),
        (r"W_U", "unembedding: the embedding table turned on its side", f"{d} × {vocabulary}"),
        (r"z,\ p", "logits and probabilities after the last position", vocabulary),
        (r"y", "the right answer: 1 for the target, 0 for all others", vocabulary),
        (r"T", "temperature", "one number"),
        (r"L", "loss: −log p of the right answer", "one number"),
        (r"\theta,\ \eta", "any weight; the size of a step", "one number"),
    ]


LESSON = Lesson(
    name="transformer",
    number=1,
    title="A transformer from scratch",
    lead="A language model does one thing, again and again: it guesses the next token. This page builds one guess. "
    "Then it follows every number through one block, shows how the weights are learned, and why generating is fast.",
    sections=(
        Section("guess", "One guess"),
        Section(
            "vectors",
            "Words become vectors",
            (("same-direction", "Similar means the same direction"), ("where", "Where each word sits")),
        ),
        Section(
            "attention",
            "Attention",
            (
                ("lookup", "A soft lookup"),
                ("recipe", "The recipe"),
                ("scale", "Why divide by √d"),
                ("mask", "Why mask the future"),
                ("heads", "Many heads"),
            ),
        ),
        Section("feed-forward", "The feed-forward network", (("bend", "Without the bend"),)),
        Section(
            "block",
            "Assemble the block",
            (("add", "Why add"), ("normalise", "Why normalise"), ("count", "Count the parameters")),
        ),
        Section("follow", "Follow the numbers"),
        Section(
            "word",
            "From a vector to a word",
            (
                ("probabilities", "Scores become probabilities"),
                ("temperature", "Temperature"),
                ("append", "Pick, append, repeat"),
            ),
        ),
        Section(
            "learning",
            "How it learns",
            (
                ("examples", "Every position is a free example"),
                ("loss", "The loss"),
                ("correction", "Predicted minus actual"),
            ),
        ),
        Section("fast", "Generating fast"),
        Section("code", "The whole thing in code"),
    ),
    facts=facts,
    extra=extra,
    glossary=glossary,
    target=" Mary",
)
