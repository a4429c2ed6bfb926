"""The embedded model's own byte-level BPE, trained on its own text and saved in GPT-2's two files.

`python -m model.embedded.bpe --stories PATH` writes `vocab.json` and `merges.txt` beside the shipped weights. A new
vocabulary means new weights: the ids change.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from model.embedded import WEIGHTS
from model.embedded import words as w
from model.embedded.sentences import REPEATED_WORDS, sentence
from model.embedded.stories import load_stories, split_held_out
from model.weights.tokenizer import START

SIZE = 2304  # tokens, `<|endoftext|>` included
SENTENCES = 60_000  # generated sentences among the training text
LISTS = 300  # times that every word of the lists is added, so that it becomes one token
LISTED = REPEATED_WORDS + w.DAYS + w.MONTHS + tuple(w.CAPITALS) + tuple(w.CAPITALS.values())


def training_text(stories: list[str], seed: int = 0, sentences: int = SENTENCES) -> Iterator[str]:
    """The stories (without the held-out ones) and generated sentences."""
    yield from split_held_out(stories)[0]
    rng = random.Random(seed)
    for _ in range(sentences):
        yield sentence(rng)
    for _ in range(LISTS):
        yield " " + " ".join(LISTED)


def train_bpe(texts: Iterable[str], size: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary (spelling → id, `<|endoftext|>` is 0) and merges in order, with GPT-2's pretokenisation."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[START],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    learned = json.loads(bpe.to_str())["model"]
    return learned["vocab"], [(left, right) for left, right in learned["merges"]]


def save_bpe(directory: Path, vocab: dict[str, int], merges: list[tuple[str, str]]) -> None:
    """`vocab.json`, `merges.txt` and the small file by which transformers recognises a GPT-2 tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    ordered = dict(sorted(vocab.items(), key=lambda item: item[1]))
    (directory / "vocab.json").write_text(json.dumps(ordered, ensure_ascii=False) + "\n", "utf-8")
    lines = ["#version: 0.2", *(" ".join(m) for m in merges)]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    settings = {
        "tokenizer_class": "GPT2Tokenizer",
        "bos_token": START,
        "eos_token": START,
        "unk_token": START,
        "add_prefix_space": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stories", type=Path, help="directory of the TinyStories files")
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    stories = load_stories(options.stories) if options.stories else []
    vocab, merges = train_bpe(training_text(stories), options.size)
    save_bpe(options.out, vocab, merges)
    print(f"{len(vocab)} tokens, {len(merges)} merges in {options.out}")


if __name__ == "__main__":
    main()
