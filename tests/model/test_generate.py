"""Generation against transformers' `generate`; seeds, branches, stops, a full context."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from model.arch.gpt2.config import GPT2Config
from model.errors import ReaderError, SettingError, TextError
from model.loading import load
from model.runtime.choice_address import ChoiceAddress
from model.runtime.generate import (
    Step,
    generate,
    window_of,
)
from model.runtime.language_model import LanguageModel
from model.runtime.sample import uniform
from model.weights.checkpoints import save_network
from tests.model.models import SHAPES, byte_tokenizer, error_of, random_model, random_network

PROMPTS = ["a", "Once upon", "12 + 3 = "]
SAMPLED = {"temperature": 1.2, "top_k": 50, "top_p": 0.95, "seed": 8}


def steps_of(model: LanguageModel, text: Any, steps: int, **settings: Any) -> list[Step]:
    return list(model.generate(text, steps, **settings))


def tokens_of(steps: list[Step]) -> list[int]:
    return [step.token for step in steps]


@cache
def theirs(name: str) -> GPT2LMHeadModel:
    with TemporaryDirectory() as directory:
        save_network(Path(directory), random_model(name).net, start_id=0)
        return GPT2LMHeadModel.from_pretrained(directory, attn_implementation="eager").eval()


# -- transformers


@pytest.mark.parametrize("text", PROMPTS)
@pytest.mark.parametrize("name", SHAPES)
def test_greedy_equals_transformers_with_its_cache(name: str, text: str) -> None:
    model = random_model(name)
    tokens = model.encode(text)
    room = model.config.n_ctx - len(tokens)
    ids = torch.tensor([tokens])
    with torch.no_grad():
        out = theirs(name).generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=room,
            do_sample=False,
            use_cache=True,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=True,
        )
    ours = steps_of(model, text, room, temperature=0)
    assert tokens_of(ours) == out.sequences[0, len(tokens) :].tolist()
    assert len(ours) > 8
    for step, logits in zip(ours, out.logits, strict=True):
        other = logits[0].numpy()
        assert np.abs(step.choice.logits - other).max() <= 1e-4 * np.abs(other).max()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("settings", [{"temperature": 0}, SAMPLED], ids=["greedy", "sampled"])
def test_with_and_without_the_cache(name: str, settings: dict[str, Any]) -> None:
    """Past the end of the context, too."""
    model = random_model(name)
    steps = model.config.n_ctx + 10
    forced = {n: 5 for n in range(steps) if n % 9 == 0}
    ours = steps_of(model, "a b", steps, forced=forced, compare=True, **settings)
    for step in ours:
        assert step.comparison is not None
        assert step.comparison.difference <= 1e-4 * step.comparison.scale
        assert step.comparison.seconds > 0
        assert step.seconds > 0
    without = steps_of(model, "a b", steps, forced=forced, use_cache=False, **settings)
    assert tokens_of(without) == tokens_of(ours)
    assert all(step.rows.reused == 0 and step.rows.new == len(step.read) for step in without)
    assert all(step.comparison is None for step in without)


# -- the record


def test_what_a_step_says() -> None:
    model = random_model("wide")
    steps = steps_of(model, "abc", 5, **SAMPLED)
    prompt = tuple(model.encode("abc"))
    for n, step in enumerate(steps):
        assert step.index == n
        assert step.read == prompt + tuple(tokens_of(steps)[:n])
        assert (step.rows.reused, step.rows.new) == ((0, 4) if n == 0 else (3 + n, 1))
        assert step.rows.pairs == (10 if n == 0 else 4 + n)
        assert (step.dropped, step.rebuilt, step.forced, step.comparison) == (0, False, False, None)
        assert (step.choice.t, step.choice.position) == (len(step.read) - 1, len(step.read))
        assert step.choice.drawn == uniform(8, len(step.read))
        assert step.token == step.choice.token
        assert step.prob == step.choice.probs[step.token]
        assert step.end == ("length" if n == 4 else "")


def test_a_run_lays_the_same_choice_open() -> None:
    model = load("embedded")
    settings = {"temperature": 0.8, "top_k": 60, "top_p": 0.9, "seed": 5}
    for step in model.generate("Once upon a time", 6, **settings):
        choice = model.run(model.tokenizer.decode(step.read)).next(**settings)
        assert model.encode(model.tokenizer.decode(step.read)) == list(step.read)
        assert (choice.token, choice.kept, choice.drawn) == (step.choice.token, step.choice.kept, step.choice.drawn)
        assert np.abs(choice.odds - step.choice.odds).max() < 1e-4


def test_addresses_of_a_generated_token_lead_to_its_run() -> None:
    model = load("embedded")
    for step in model.generate("The cat", 3, use_cache=False, **SAMPLED):
        run, at = model.run(model.tokenizer.decode(step.read)), ChoiceAddress(step.choice)
        for row in step.choice.candidates(0, 8):
            assert float(run.values(at.tempered(row.token))) == pytest.approx(row.tempered, rel=2e-5)
            assert float(run.values(at.odds(row.token))) == pytest.approx(row.odds, rel=2e-5)


# -- seeds and branches


def test_a_seed_gives_the_same_text_in_another_process() -> None:
    ours = tokens_of(steps_of(load("embedded"), "Once upon a time", 30, **SAMPLED))
    script = (
        "import json, sys; from model import load; "
        "print(json.dumps([s.token for s in load().generate('Once upon a time', 30, **json.loads(sys.argv[1]))]))"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, json.dumps(SAMPLED)]
    environment = os.environ | {"PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == ours


def test_other_seeds_give_other_texts() -> None:
    texts = {tuple(tokens_of(steps_of(random_model("wide"), "a", 12, seed=seed))) for seed in range(8)}
    assert len(texts) == 8


@pytest.mark.parametrize("name", ["wide", "relu"])
def test_continuing_later_is_continuing(name: str) -> None:
    model = random_model(name)
    forced = dict.fromkeys(range(0, 90, 4), 7)  # tokens that never end the text
    whole = steps_of(model, "ab", 90, forced=forced, **SAMPLED)
    assert len(whole) == 90
    for cut in (1, 30, 70):
        before = model.encode("ab") + tokens_of(whole[:cut])
        later = {n - cut: token for n, token in forced.items() if n >= cut}
        after = steps_of(model, before, 90 - cut, forced=later, **SAMPLED)
        assert tokens_of(after) == tokens_of(whole[cut:])
        assert [step.read for step in after] == [step.read for step in whole[cut:]]


def test_a_branch_takes_another_token_and_goes_on() -> None:
    model = random_model("wide")
    first = steps_of(model, "abc", 10, **SAMPLED)
    other = int(first[4].choice.order[100])
    branch = steps_of(model, "abc", 10, forced={4: other}, **SAMPLED)
    assert tokens_of(branch)[:4] == tokens_of(first)[:4]
    assert branch[4].token == other
    assert branch[4].forced
    assert branch[4].choice.token == first[4].token  # the draw is still shown
    assert branch[4].choice.odds[other] == 0  # it lay beyond the cut
    assert branch[4].prob == branch[4].choice.probs[other] > 0
    assert branch[5].read == (*first[4].read, other)
    assert [s.choice.drawn for s in branch] == [s.choice.drawn for s in first]


# -- ends


def test_the_end_token_ends() -> None:
    model = random_model("small")
    steps = steps_of(model, "a", 10, forced={3: model.tokenizer.start_id})
    assert [step.end for step in steps][-1] == "end token"
    assert len(steps) <= 4


@pytest.mark.parametrize("stop", ["!", ["?", "!"], ["", "c!"], "bc!"])
def test_a_stop_text_ends(stop: str | list[str]) -> None:
    model = random_model("small")
    forced = dict(enumerate(model.tokenizer.encode("abc!d")))
    steps = steps_of(model, "?!", 5, forced=forced, stop=stop)
    assert model.tokenizer.decode(tokens_of(steps)) == "abc!"
    assert steps[-1].end == "stop text"


def test_no_steps() -> None:
    assert steps_of(random_model("small"), "a", 0) == []


# -- a full context


def test_the_window() -> None:
    assert window_of([0, 1, 2, 3], 4, 0) == [0, 1, 2, 3]
    assert window_of([0, 1, 2, 3, 4], 4, 0) == [0, 4]
    assert window_of([9, 1, 2, 3, 4], 4, 0) == [3, 4]
    assert window_of([0, 1, 2, 3, 4, 5, 6], 4, 0) == [0, 4, 5, 6]
    assert window_of([0, 1, 2, 3, 4, 5, 6, 7], 4, 0) == [0, 7]
    assert window_of([0, 1, 2], 1, 0) == [2]


def test_a_full_context_drops_the_oldest_and_rebuilds_the_cache() -> None:
    model = random_model("one head")  # 24 positions
    text = model.encode("x" * 20)
    steps = steps_of(model, text, 40, forced=dict.fromkeys(range(40), 7))
    tokens = text + tokens_of(steps)
    for step in steps:
        n = len(text) + step.index
        assert step.dropped + len(step.read) == n
        assert step.read[0] == model.tokenizer.start_id
        assert step.read[1:] == tuple(tokens[n - len(step.read) + 1 : n])
        assert len(step.read) <= 24
        assert step.choice.position == n
        assert step.choice.t == len(step.read) - 1
        if step.rebuilt:
            assert (step.rows.reused, step.rows.new) == (0, 12)
        elif step.index:
            assert step.rows.new == 1
    assert [step.index for step in steps if step.rebuilt] == [4, 17, 30]


def test_a_context_of_one_token() -> None:
    config = GPT2Config(n_layer=1, n_head=1, d_model=8, d_mlp=24, d_vocab=270, n_ctx=1)
    model = LanguageModel("one", random_network(config), byte_tokenizer(270))
    steps = steps_of(model, [5], 4, forced=dict.fromkeys(range(4), 7), compare=True)
    assert [step.read for step in steps] == [(5,), (7,), (7,), (7,)]
    assert [step.rebuilt for step in steps] == [False, True, True, True]


# -- bad input


@pytest.mark.parametrize(
    ("part", "settings"),
    [
        ("temperature", {"temperature": math.nan}),
        ("top_p", {"top_p": -0.1}),
        ("top_k", {"top_k": -3}),
        ("seed", {"seed": -1}),
        ("forced", {"forced": {0: 300}}),
        ("forced", {"forced": {0: -1}}),
        ("forced", {"forced": {7: 5}}),
    ],
)
def test_bad_settings_speak_before_the_first_step(part: str, settings: dict[str, Any]) -> None:
    error = error_of(SettingError, lambda: random_model("small").generate("a", 7, **settings))
    assert error.part == part


@pytest.mark.parametrize("steps", [-1, 1.5, math.nan, "3", True])
def test_bad_numbers_of_steps(steps: Any) -> None:
    assert error_of(SettingError, lambda: random_model("small").generate("a", steps)).part == "steps"


def test_bad_texts() -> None:
    model = random_model("small")
    error_of(TextError, lambda: model.generate("", 3, bos=False))
    error_of(TextError, lambda: model.generate([], 3))
    error_of(TextError, lambda: model.generate("x" * 32, 3))  # a typed text must fit; made ones may grow
    assert error_of(ReaderError, lambda: model.generate([1, 300], 3)).part == "text"


def test_tokens_that_do_not_read_back() -> None:
    model = load("embedded")
    whole = model.encode(" the")
    letters = [model.tokenizer.start_id] + [model.encode(letter, bos=False)[0] for letter in " the"]
    assert model.spelled(whole[1:]) == " the"
    assert model.spelled(letters[1:]) == "ids:" + ",".join(map(str, letters[1:]))
    assert load("toy").spelled([1, 1]) == "ids:1,1"  # “thethe” is no word of it


def test_it_is_lazy() -> None:
    steps = generate(random_model("small"), "a", 10**9)
    assert isinstance(steps, Iterator)
    assert next(steps).index == 0
