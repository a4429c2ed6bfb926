"""The training text as rows of token ids, deterministic by seed and step.

Each row starts at a document's start (`<|endoftext|>` at position 0), as a reader's text does; where a document ends
early the next one follows. Short rows hold single sentences, long rows stories and passages, so that every position up
to the context's end is trained. Step n's batch depends on (seed, n) alone: a resumed training goes on as if it had
never stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from model.embedded.sentences import repeated, repeating, sentence
from model.embedded.stories import load_stories, split_held_out
from model.weights.tokenizer import Tokenizer

SHORT = 48  # length of a row of single sentences
COPYING = 64  # length of a row of repeated tokens
COPYING_STEPS = 4000  # for so many steps a quarter of the batches are such rows
PHASES = (5500, 10_900, 13_400)  # steps from which the sentences have the next shares of `sentences.KINDS`
LOWER_CASE = 0.08  # share of stories and sentences given all in lower case, as readers type
LATER_START = 0.3  # share of stories that begin at a later paragraph, so that the ends of long ones are read too

Make = Callable[[random.Random], list[int]]  # makes one document's ids


@dataclass(frozen=True)
class Corpus:
    """What documents are drawn from. `stories` is empty where training runs on the generator alone."""

    tokenizer: Tokenizer
    stories: list[str]
    held_out_stories: list[str]

    @classmethod
    def load(cls, tokenizer: Tokenizer, directory: Path | None) -> Corpus:
        train, held_out = split_held_out(load_stories(directory)) if directory else ([], [])
        return cls(tokenizer, train, held_out)

    def ids(self, text: str) -> list[int]:
        return [self.tokenizer.start_id, *self.tokenizer.encode(text)]

    def sentence(self, rng: random.Random, phase: int = 0) -> list[int]:
        text = sentence(rng, phase)
        return self.ids(text.lower() if rng.random() < LOWER_CASE else text)

    def passage(self, rng: random.Random, phase: int = 0) -> list[int]:
        """Several generated sentences, one after the other."""
        return self.ids(rng.choice((" ", "\n")).join(sentence(rng, phase) for _ in range(rng.randint(2, 10))))

    def story(self, rng: random.Random) -> list[int]:
        text = rng.choice(self.stories)
        paragraphs = text.split("\n")
        if len(paragraphs) > 1 and rng.random() < LATER_START:
            text = "\n".join(paragraphs[rng.randrange(1, len(paragraphs)) :])
        return self.ids(text.lower() if rng.random() < LOWER_CASE else text)

    def repeated_words(self, rng: random.Random) -> list[int]:
        """A longer word sequence given twice or thrice than a short row has room for."""
        return self.ids(repeating(rng, 10, 50))

    def repeated_tokens(self, rng: random.Random) -> list[int]:
        """Random tokens, then the same again: teaches copying from and to every row of the table."""
        once = rng.choices(range(self.tokenizer.n_vocab), k=rng.randint(5, 80))
        return [self.tokenizer.start_id, *once, *once]

    def long_document(self, rng: random.Random, phase: int = 0) -> list[int]:
        kinds = (self.story, partial(self.passage, phase=phase), self.repeated_words, self.repeated_tokens)
        shares = (0.66 if self.stories else 0.0, 0.18, 0.09, 0.07)
        make: Make = rng.choices(kinds, shares)[0]
        return make(rng)

    def copying(self, rng: random.Random) -> list[int]:
        """Random tokens or words over and over, enough to fill a row of COPYING."""
        if rng.random() < 0.5:
            once = rng.choices(range(self.tokenizer.n_vocab), k=rng.randint(4, 31))
        else:
            once = self.tokenizer.encode(" " + " ".join(repeated(rng, 4, 31, copies=1)))
        return [self.tokenizer.start_id, *once * (1 + COPYING // len(once))]

    def rows(self, rng: random.Random, make: Make, length: int, tokens: int) -> Tensor:
        """[rows, length + 1] ids, documents one after the other, the last of a row cut; `tokens` predicted in all."""
        rows = []
        for _ in range(max(1, tokens // length)):
            row: list[int] = []
            while len(row) <= length:
                row += make(rng)
            rows.append(row[: length + 1])
        return torch.tensor(rows)

    def batch(self, seed: int, step: int, tokens: int, n_ctx: int) -> Tensor:
        """[rows, length + 1] ids for one step, about `tokens` of them predicted.

        Every other step reads single sentences; the steps between read long rows, and half-long rows or, early on,
        copying: once a head has learned to copy, the relations that build on it come quickly.
        """
        rng, phase = random.Random(f"{seed}:{step}"), sum(step >= start for start in PHASES)
        sentence, long_document = partial(self.sentence, phase=phase), partial(self.long_document, phase=phase)
        if step % 2 == 0:
            return self.rows(rng, sentence, min(SHORT, n_ctx), tokens)
        if step % 4 == 1:
            return self.rows(rng, long_document, n_ctx, tokens)
        if step < COPYING_STEPS:
            return self.rows(rng, self.copying, min(COPYING, n_ctx), tokens)
        return self.rows(rng, long_document, n_ctx // 2, tokens)


def held_out_rows(corpus: Corpus, n_ctx: int, n_sentences: int = 256) -> list[list[int]]:
    """What the printed held-out loss is measured on: held-out stories, or sentences of a seed never trained on."""
    if corpus.held_out_stories:
        return [corpus.ids(s)[: n_ctx + 1] for s in corpus.held_out_stories]
    rng = random.Random("held out")
    return [corpus.ids(sentence(rng))[: n_ctx + 1] for _ in range(n_sentences)]
