"""Lesson 1: a transformer from scratch. What its prose claims about the reader's run is measured here."""

from __future__ import annotations

from typing import Any

from app.features.lessons import code
from app.features.lessons.base import Lesson, Section
from app.parts.attention import strongest_look
from app.parts.base import Scene, View
from app.parts.expressions import length
from app.parts.follow import TOY
from app.request.state import DEFAULT_TEXT

# The example sentence ends after a word; what grows on from a text is shown on this one.
STORY = "Once upon a time, there was a little"


def facts(scene: Scene) -> View:
    """What the prose says of this run. `top` and `runner` are token ids; `others` the likeliest but the target.

    `active` counts neurons of block 0 above zero at the last position, `neuron` is the strongest of them.
    `length_in` and `length_out` are expressions: the row's length before the first and after the last block.
    """
    run, last = scene.run, scene.last
    best = [token for token, _ in run.top(4)]
    post = run.tensor("blocks.0.mlp.post")[last].numpy()
    first, final = "blocks.0.resid_pre", f"blocks.{scene.model.config.n_layer - 1}.resid_post"
    return View(
        last=last,
        top=best[0],
        runner=best[1] if len(best) > 1 else None,
        target_is_top=run.target == best[0],
        look=strongest_look(run, has_start=scene.state.bos),
        others=[token for token in best if token != run.target][:3],
        active=int((post > 0).sum()),
        neuron=int(post.argmax()),
        length_in=length(f"{first}[{last},:]"),
        length_out=length(f"{final}[{last},:]"),
        grows=bool(run.tensor(final)[last].norm() > run.tensor(first)[last].norm()),
    )


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
    target=" Mary",
)
