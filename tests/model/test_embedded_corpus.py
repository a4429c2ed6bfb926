"""The training text: deterministic, and what is held out really is."""

import json
import random
import re
from pathlib import Path

import pytest
import torch

from model.embedded import WEIGHTS
from model.embedded import words as w
from model.embedded.corpus import COPYING, COPYING_STEPS, SHORT, Corpus, held_out_rows
from model.embedded.giving import (
    HELD_OUT_OPENINGS,
    OPENINGS,
    VERBS,
    gift,
    giving,
    giving_three,
    giving_varied,
    giving_widely,
    two_held_out,
    two_together,
)
from model.embedded.sentences import (
    CLOSERS,
    KINDS,
    PHRASES,
    agreeing,
    agreement,
    bracketing,
    closing,
    number,
    plain,
    quoting,
    repeated,
    sentence,
)
from model.embedded.stories import (
    clean,
    load_stories,
    names_in,
    restore_case,
    split_held_out,
    split_stories,
    unmojibake,
)
from model.weights.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.load(load_tokenizer(WEIGHTS), None)


@pytest.fixture(scope="module")
def stories(shared: Path) -> list[str]:
    return load_stories(shared / "data" / "stories")


# --- deterministic ---


def test_the_same_seed_and_step_give_the_same_batch(corpus: Corpus) -> None:
    for step in (0, 1, 7):
        assert torch.equal(corpus.batch(3, step, 256, 128), corpus.batch(3, step, 256, 128))
    assert not torch.equal(corpus.batch(3, 1, 256, 128), corpus.batch(4, 1, 256, 128))
    assert not torch.equal(corpus.batch(3, 1, 256, 128), corpus.batch(3, 3, 256, 128))


def test_every_row_starts_a_document_and_fills_its_length(corpus: Corpus) -> None:
    short, long, copying, half = (corpus.batch(0, step, 2048, 256) for step in (0, 1, 3, COPYING_STEPS + 3))
    assert short.shape == (2048 // SHORT, SHORT + 1)
    assert long.shape == (8, 257) and half.shape == (16, 129)
    assert copying.shape == (2048 // COPYING, COPYING + 1)
    for rows in (short, long, copying, half):
        assert (rows[:, 0] == corpus.tokenizer.start_id).all()
        assert int(rows.min()) >= 0 and int(rows.max()) < corpus.tokenizer.n_vocab


def test_without_stories_the_held_out_rows_are_sentences(corpus: Corpus) -> None:
    rows = held_out_rows(corpus, 32, 10)
    assert len(rows) == 10 and all(len(row) <= 33 for row in rows)


# --- held out ---


def test_held_out_words_and_frames_never_stand_in_a_giver_receiver_sentence() -> None:
    rng = random.Random(5)
    banned = {*w.HELD_OUT_NAMES, *w.HELD_OUT_OBJECTS}
    frames = [re.compile(re.sub(r"\{.\}", r"\\w+", opening)) for opening in HELD_OUT_OPENINGS]
    for make in (giving, giving_varied, giving_widely, giving_three):
        for _ in range(3000):
            text = make(rng)
            assert not banned & set(re.findall(r"\w+", text))
            assert not any(frame.search(text) for frame in frames)


def test_sentences_that_hold_held_out_names_give_nothing() -> None:
    rng = random.Random(5)
    for make in (plain, two_together, two_held_out, quoting, number):
        for _ in range(3000):
            assert not set(VERBS) & set(make(rng).split())


def test_held_out_gifts_use_nothing_but_held_out_names_objects_and_frames() -> None:
    rng = random.Random(5)
    for _ in range(1000):
        g = gift(rng, held_out=True)
        assert {g.giver, g.receiver} <= set(w.HELD_OUT_NAMES) and g.giver != g.receiver
        assert g.object in w.HELD_OUT_OBJECTS and g.object in g.text
        assert g.text.count(g.giver) == 2 and g.text.count(g.receiver) == 1
    assert not set(HELD_OUT_OPENINGS) & set(OPENINGS)
    assert not set(w.HELD_OUT_NAMES) & set(w.NAMES)
    assert not set(w.HELD_OUT_OBJECTS) & set(w.OBJECTS)


def test_held_out_nouns_never_stand_in_a_sentence_with_a_noun_in_between() -> None:
    rng = random.Random(5)
    held_out = {form for pair in w.HELD_OUT_NOUNS for form in pair}
    assert not held_out & {form for pair in w.TRAIN_NOUNS for form in pair}
    for _ in range(3000):
        assert not held_out & set(agreeing(rng).rstrip(".").split())
        assert set(agreement(rng, held_out=True).text.split()) & held_out
    # what they do occur with is a phrase that holds no noun
    assert not {form for pair in w.ALL_NOUNS for form in pair} & set(" ".join(PHRASES).split())


def test_held_out_stories_are_whole_and_apart(stories: list[str]) -> None:
    train, held_out = split_held_out(stories)
    assert len(held_out) >= 90 and len(train) + len(held_out) == len(stories)
    assert not set(train) & set(held_out)
    assert not {s.lower()[:200] for s in train} & {s.lower()[:200] for s in held_out}


# --- what the sentences say ---


def test_either_name_gives_and_either_stands_first() -> None:
    rng = random.Random(1)
    gifts = [gift(rng) for _ in range(2000)]
    first_gives = sum(g.text.index(g.giver) < g.text.index(g.receiver) for g in gifts)
    assert 0.45 < first_gives / len(gifts) < 0.55


def test_the_verb_fits_the_subject_not_its_neighbour() -> None:
    rng = random.Random(1)
    many = {plural for _, plural in w.ALL_NOUNS}
    for _ in range(500):
        a = agreement(rng, opposite=True)
        subject = a.text.split()[1]
        assert (a.right in ("are", "were", "have", "look")) == (subject in many)
        assert {a.right, a.wrong} in ({"is", "are"}, {"was", "were"}, {"has", "have"}, {"looks", "look"})


def test_brackets_close_in_reverse_order() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        opened: list[str] = []
        for sign in bracketing(rng):
            if opened and sign == CLOSERS[opened[-1]]:
                opened.pop()
            elif sign in CLOSERS:
                opened.append(sign)
            else:
                assert sign not in ")]}"
        assert opened == []


def test_a_cut_bracket_text_lacks_the_closer_it_asks_for() -> None:
    rng = random.Random(1)
    for _ in range(500):
        cut = closing(rng)
        closer = cut.closer.strip()
        opener = next(o for o, c in CLOSERS.items() if c == closer)
        assert cut.text.count(opener) > cut.text.count(closer) or opener == closer


def test_a_repeated_sequence_repeats() -> None:
    for copies in (2, 3):
        words = repeated(random.Random(1), 8, 20, copies)
        assert 8 * copies <= len(words) <= 20 * copies
        assert words == words[: len(words) // copies] * copies


def test_every_kind_of_sentence_is_made() -> None:
    for shares in (1, 2, 3, 4):
        assert sum(kind[shares] for kind in KINDS) == pytest.approx(1)
    rng = random.Random(2)
    for make, *_ in KINDS:
        assert len({make(rng) for _ in range(50)}) > 10
    assert len({sentence(rng) for _ in range(200)}) > 150


def test_the_words_of_the_lists_are_one_token_each(corpus: Corpus) -> None:
    nouns = tuple(form for pair in w.ALL_NOUNS for form in pair)
    for word in w.ALL_NAMES + w.PLACES + w.ALL_OBJECTS + w.NUMBERS + nouns:
        assert len(corpus.tokenizer.encode(" " + word)) == 1, word


# --- cleaning ---


def test_mojibake_is_undone() -> None:
    assert unmojibake("â€œthatâ€™s very wiseâ€\nand so") == '"that\'s very wise"\nand so'
    assert unmojibake("“Hi,” he said") == '"Hi," he said'


def test_case_is_restored() -> None:
    story = 'one day, lily met tom. "i like you," she said.\nthey went home. "stop!" he said. then i left.'
    assert restore_case(story, {"lily", "tom"}) == (
        'One day, Lily met Tom. "I like you," she said.\nThey went home. "Stop!" he said. Then I left.'
    )


def test_names_are_words_capitalised_inside_sentences() -> None:
    assert names_in(["Then Mary saw Tom. She asked Tom and Mary to sing. They did."]) == {"mary", "tom"}


def test_stories_are_parted_by_single_newlines() -> None:
    one, two = "once " + "a " * 150, "one day " + "b " * 150
    assert split_stories(f"{one}\n\nmore\n{two}") == [f"{one}\n\nmore", two]


def test_loaded_stories_are_clean_and_in_true_case(stories: list[str]) -> None:
    assert len(stories) > 4500
    text = "\n".join(stories)
    assert text.isascii()
    assert text.count(" I ") > 1000 and " i " not in text
    assert text.count("Lily") > 100 * text.count("lily")


def test_restored_case_is_mostly_the_true_case(shared: Path) -> None:
    """Names learned from one half of the true-case stories, tried on the other half, made lower case."""
    file = shared / "data" / "stories" / "tinystories_1000.json"
    true_case = [clean(s) for s in json.loads(file.read_text("utf-8"))]
    names = names_in(true_case[:500]) | {name.lower() for name in w.ALL_NAMES}
    wrong = total = 0
    for story in true_case[500:]:
        restored = restore_case(story.lower(), names)
        wrong += sum(a != b for a, b in zip(re.findall(r"\w+", story), re.findall(r"\w+", restored), strict=True))
        total += len(re.findall(r"\w+", story))
    assert wrong / total < 0.01
