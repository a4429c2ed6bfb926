"""Measure the shipped weights and write the figures into their card: `python -m model.embedded.measure --stories PATH`.

Without `--stories` the losses on held-out stories are left as the card has them.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from dataclasses import dataclass
from math import log
from pathlib import Path

import torch

from model.arch.base import Config
from model.arch.network import Network
from model.embedded import CARD, WEIGHTS
from model.embedded.corpus import Corpus
from model.embedded.skills import (
    DEFAULT,
    agreements,
    closings,
    first_token,
    loss_per_token,
    probabilities,
    receivers,
    repetition,
)
from model.embedded.words import DATA
from model.study.heads import KINDS, ablate_heads, kinds_of, measure_heads, strongest
from model.weights.checkpoints import read_checkpoint
from model.weights.tokenizer import Tokenizer

PROMPTS = tuple(DATA["measured"]["prompts"])


@dataclass(frozen=True)
class Measured:
    """The model as the measurements see it (what `model.study.heads` asks of a loaded model)."""

    net: Network
    tokenizer: Tokenizer

    @property
    def config(self) -> Config:
        return self.net.config


def unigram_loss(train: list[list[int]], held_out: list[list[int]], n_vocab: int) -> float:
    """Mean −log p of held-out tokens under the frequencies of the training tokens, one added to every count."""
    counts = Counter(t for row in train for t in row[1:])
    total = sum(counts.values()) + n_vocab
    tokens = [t for row in held_out for t in row[1:]]
    return -sum(log((counts[t] + 1) / total) for t in tokens) / len(tokens)


def row(*cells: object) -> str:
    return "| " + " | ".join(str(c) for c in cells) + " |"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def skills_table(m: Measured) -> list[str]:
    """The relations, on what training never saw."""
    net, tokenizer = m.net, m.tokenizer
    p = probabilities(net, tokenizer, [DEFAULT])[0]
    first, second = repetition(net, tokenizer, 200)
    shown = {name: percent(float(p[first_token(tokenizer, name)])) for name in (" Mary", " John")}
    return [
        row("measured", "value", "on"),
        row("---", "---", "---"),
        row("receiver's name is the top token", percent(receivers(net, tokenizer, 1000)),
            "1,000 sentences with held-out names, objects and frames"),
        row("the same with names, objects and frames of the training text",
            percent(receivers(net, tokenizer, 1000, held_out=False)), "1,000 sentences"),
        row("p(` Mary`) and p(` John`)", f"{shown[' Mary']} and {shown[' John']}", f"`{DEFAULT}`"),
        row("the verb that agrees is likelier", percent(agreements(net, tokenizer, 500)),
            "500 sentences of held-out nouns, the noun in between of the other number"),
        row("the due bracket or quote is the top token", percent(closings(net, tokenizer, 500)),
            "500 places around held-out words"),
        row("mean −log p, first and second copy", f"{first:.2f} and {second:.2f}",
            "200 sequences of 8 to 20 random words, given twice"),
    ]  # fmt: skip


def stories_table(m: Measured, stories: Path) -> list[str]:
    """Loss per token on held-out stories, with what knows nothing and what knows frequencies only."""
    corpus = Corpus.load(m.tokenizer, stories)
    train, held_out = (
        [corpus.ids(s)[: m.config.n_ctx + 1] for s in part] for part in (corpus.stories, corpus.held_out_stories)
    )
    return [
        row(f"{len(held_out)} held-out stories", "−log p per token"),
        row("---", "---"),
        row("uniform: every token alike", f"{log(m.tokenizer.n_vocab):.3f}"),
        row("unigram: each token's frequency", f"{unigram_loss(train, held_out, m.tokenizer.n_vocab):.3f}"),
        row("this model", f"{loss_per_token(m.net, held_out):.3f}"),
    ]


def heads_table(m: Measured) -> list[str]:
    """The strongest head of each kind that any head is of, and what the answer owes to each of them."""
    scores = measure_heads(m)
    lines = [row("what the head does", "strongest", "share of its attention"), row("---", "---", "---")]
    found = [(kind, s) for kind in KINDS for s in strongest(scores, kind) if kind in kinds_of(s)]
    for kind, s in found:
        lines.append(row(KINDS[kind], f"block {s.block}, head {s.head}", f"{getattr(s, kind):.2f}"))
    ablations = ablate_heads(m, sorted({(s.block, s.head) for _, s in found}, reverse=True))
    lines += ["", row("head replaced by its mean", "p(receiver)", "p(giver)"), row("---", "---", "---")]
    lines.append(row("none", percent(ablations[0].with_head), percent(ablations[0].giver_with_head)))
    for a in ablations:
        lines.append(row(f"block {a.block}, head {a.head}", percent(a.without_head), percent(a.giver_without_head)))
    return lines


def prompts_table(m: Measured) -> list[str]:
    """The five likeliest next tokens after everyday prompts."""
    lines = [row("prompt", "five likeliest next tokens"), row("---", "---")]
    for prompt, p in zip(PROMPTS, probabilities(m.net, m.tokenizer, list(PROMPTS)), strict=True):
        top = p.topk(5)
        cells = (f"`{m.tokenizer.show(int(i))}` {100 * v:.0f} %" for v, i in zip(top.values, top.indices, strict=True))
        lines.append(row(f"`{prompt}`", ", ".join(cells)))
    return lines


def fill_in(card: str, name: str, lines: list[str]) -> str:
    """The card with the lines between `<!-- name -->` and `<!-- /name -->` replaced."""
    body = "\n".join(lines)
    return re.sub(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", lambda m: f"{m[1]}{body}\n{m[2]}", card, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stories", type=Path, help="directory of the TinyStories files")
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    m = Measured(*read_checkpoint(options.weights))
    tables = {"skills": skills_table(m), "heads": heads_table(m), "prompts": prompts_table(m)}
    if options.stories:
        tables["stories"] = stories_table(m, options.stories)
    card = CARD.read_text("utf-8")
    for name, lines in tables.items():
        print("\n".join(lines), end="\n\n")
        card = fill_in(card, name, lines)
    if options.weights == WEIGHTS:
        CARD.write_text(card, "utf-8")


if __name__ == "__main__":
    main()
