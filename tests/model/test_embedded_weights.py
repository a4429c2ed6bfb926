"""The shipped weights: what the card claims, on smaller samples and with the same thresholds."""

import subprocess
import sys
from functools import cache
from math import log
from pathlib import Path

import pytest
import torch

from model.embedded import CARD, WEIGHTS
from model.embedded.corpus import Corpus
from model.embedded.lookups import HEAD
from model.embedded.measure import PROMPTS, Measured, fill_in, prompts_table, unigram_loss
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
from model.study.heads import (
    KINDS,
    ablate_heads,
    kinds_of,
    measure_heads,
    strongest,
)
from model.weights.checkpoints import read_checkpoint


@cache
def shipped() -> Measured:
    return Measured(*read_checkpoint(WEIGHTS))


@pytest.fixture
def m() -> Measured:
    return shipped()


# --- the file ---


def test_size_and_shape(m: Measured) -> None:
    c = m.config
    assert sum(f.stat().st_size for f in WEIGHTS.iterdir()) < 10 * 2**20
    assert 1_000_000 <= sum(p.numel() for p in m.net.parameters()) <= 4_000_000
    assert c.n_layer >= 3 and c.n_head >= 4 and c.act == "gelu_new" and c.eps == 1e-5
    assert 1000 <= m.tokenizer.n_vocab == c.d_vocab <= 4000
    assert all(p.dtype == torch.float32 for p in m.net.parameters())


def test_loads_in_half_a_second_after_torch() -> None:
    """Best of three in one fresh process: the disk cache is warm, as on any but the first start."""
    code = """
import time, torch
from model.weights.checkpoints import read_checkpoint
from model.embedded import WEIGHTS
def once():
    start = time.perf_counter(); read_checkpoint(WEIGHTS); return time.perf_counter() - start
print(min(once() for _ in range(3)))
"""
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert float(found.stdout) <= 0.5


def test_transformers_reads_it_unchanged_and_agrees(m: Measured) -> None:
    from transformers import GPT2LMHeadModel, GPT2Tokenizer

    theirs = GPT2LMHeadModel.from_pretrained(WEIGHTS, dtype=torch.float32).eval()
    words = GPT2Tokenizer.from_pretrained(WEIGHTS)
    for text in (DEFAULT, "Once upon a time", 'A "quoted"\n line, café 😀  two  spaces 123'):
        ids = m.tokenizer.encode(text)
        assert words.encode(text) == ids
        tokens = torch.tensor([[m.tokenizer.start_id, *ids]])
        with torch.no_grad():
            assert torch.allclose(theirs(tokens).logits, m.net(tokens), atol=1e-4)
    assert words.bos_token_id == m.tokenizer.start_id


# --- the skills ---


def test_receiver_on_held_out_names_objects_and_frames(m: Measured) -> None:
    assert receivers(m.net, m.tokenizer, 300) >= 0.95


def test_default_sentence(m: Measured) -> None:
    p = probabilities(m.net, m.tokenizer, [DEFAULT])[0]
    mary, john = (float(p[first_token(m.tokenizer, name)]) for name in (" Mary", " John"))
    assert mary >= 0.6
    assert 0.001 < john < mary
    top = p.topk(20).indices.tolist()
    assert top[0] == first_token(m.tokenizer, " Mary") and first_token(m.tokenizer, " John") in top


def test_agreement_across_a_noun_of_the_other_number(m: Measured) -> None:
    assert agreements(m.net, m.tokenizer, 300) >= 0.95


def test_brackets_and_quotes_close(m: Measured) -> None:
    assert closings(m.net, m.tokenizer, 300) >= 0.95


def test_a_second_copy_costs_at_most_half_of_the_first(m: Measured) -> None:
    first, second = repetition(m.net, m.tokenizer, 40)
    assert second <= 0.5 * first


def test_held_out_stories_beat_the_unigram_baseline_by_two_nats(m: Measured, shared: Path) -> None:
    corpus = Corpus.load(m.tokenizer, shared / "data" / "stories")
    train = [corpus.ids(s) for s in corpus.stories]
    held_out = [corpus.ids(s)[: m.config.n_ctx + 1] for s in corpus.held_out_stories[::2]]
    unigram = unigram_loss(train, held_out, m.tokenizer.n_vocab)
    assert unigram < log(m.tokenizer.n_vocab)
    assert loss_per_token(m.net, held_out) <= unigram - 2


# --- the heads ---


def test_heads_of_each_kind_are_found(m: Measured) -> None:
    scores = measure_heads(m)
    best = {kind: getattr(strongest(scores, kind)[0], kind) for kind in KINDS}
    for kind in ("previous", "start", "induction", "receiver"):
        assert best[kind] >= 0.4, kind
    receiver = strongest(scores, "receiver")[0]
    assert receiver.receiver is not None and receiver.giver is not None
    assert receiver.receiver > 2 * receiver.giver
    assert "receiver" in kinds_of(receiver)


def test_the_receiver_head_matters(m: Measured) -> None:
    """Without the head that looks at the receiver, the right name loses a third of its probability or more."""
    receiver = strongest(measure_heads(m), "receiver")[0]
    assert (receiver.block, receiver.head) == (m.config.n_layer - 1, HEAD)
    (without,) = ablate_heads(m, [(receiver.block, receiver.head)])
    assert without.with_head > 0.6
    assert without.without_head < 0.67 * without.with_head


# --- the card ---


def test_the_card_lists_the_prompts_as_the_weights_answer_them(m: Measured) -> None:
    card = CARD.read_text("utf-8")
    assert len(PROMPTS) == 20
    for line in prompts_table(m)[2:]:
        prompt, answers = line.strip("| ").rsplit(" | ", 1)
        assert f"| {prompt} | " in card
        top = answers.split("`")[1]
        assert f"`{top}`" in next(row for row in card.splitlines() if row.startswith(f"| {prompt} |"))


def test_filling_in_the_card_replaces_only_the_named_part() -> None:
    card = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n<!-- y -->\nkept\n<!-- /y -->\n"
    assert fill_in(card, "x", ["new", "lines"]) == card.replace("old", "new\nlines")
