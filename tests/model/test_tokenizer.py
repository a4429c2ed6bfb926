"""The tokenizers that ship here, and what a checkpoint's files may hold; GPT-2's own has a file to itself."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Tokenizer

from model.errors import CheckpointError, TextError
from model.loading import EMBEDDED, load
from model.weights.tokenizer import (
    START,
    load_tokenizer,
    spell,
    spelled_bytes,
)

TEXTS = [
    "When Mary and John went to the store, John gave a drink to",
    "🙂 naïve café, 中文字, العربية, русский",
    "def f(x):\n\n\treturn  x**2   # spaces      here \r\n",
    "<|endoftext|> typed by a reader",
    "don't we'll I'M 12345 ½ ²",
    "\x00\x01\x7f control",
    "   ",
    "",
]


@given(st.text(max_size=80))
def test_embedded_gives_every_text_back(text: str) -> None:
    tokenizer = load_tokenizer(EMBEDDED)
    assert b"".join(tokenizer.bytes(i) for i in tokenizer.encode(text)) == text.encode()


def test_embedded_equals_transformers() -> None:
    theirs, ours = GPT2Tokenizer.from_pretrained(EMBEDDED), load_tokenizer(EMBEDDED)
    for text in TEXTS:
        if START not in text:  # there transformers reads a control token, on purpose not ours
            assert ours.encode(text) == theirs(text)["input_ids"], text


def test_tokenizer_json_equals_vocab_and_merges(tmp_path: Path) -> None:
    vocab = json.loads((EMBEDDED / "vocab.json").read_text("utf-8"))
    lines = (EMBEDDED / "merges.txt").read_text("utf-8").splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    start = {"id": vocab[START], "content": START}
    ordinary = {token: i for token, i in vocab.items() if token != START}
    for form in (merges, [merge.split(" ") for merge in merges]):
        model = {"type": "BPE", "vocab": ordinary, "merges": form}
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": [start]}), "utf-8")
        ours = load_tokenizer(tmp_path)
        for text in TEXTS:
            assert ours.encode(text) == load_tokenizer(EMBEDDED).encode(text)


def test_the_start_token_typed_is_plain_text() -> None:
    for model in (load("embedded"),):
        ids = model.tokenizer.encode(START)
        assert model.tokenizer.start_id not in ids
        assert model.tokenizer.decode(ids) == START


def test_broken_utf8_is_shown_by_its_bytes() -> None:
    tokenizer = load("embedded").tokenizer
    ids = tokenizer.encode("🙂")
    if len(ids) > 1:
        assert tokenizer.text(ids[0]) is None
        assert tokenizer.show(ids[0]) == "⟨" + tokenizer.bytes(ids[0]).hex(" ").upper() + "⟩"
    assert tokenizer.show(tokenizer.encode(" a")[0]) == "␣a"
    assert tokenizer.show(tokenizer.start_id) == "⟨start⟩"


def test_half_an_emoji_does_not_break_the_tokenizer() -> None:
    tokenizer = load("embedded").tokenizer
    assert tokenizer.decode(tokenizer.encode("a\ud83db")) == "a�b"


def test_a_closed_vocabulary_names_the_word_it_lacks() -> None:
    with pytest.raises(TextError, match="elephant") as caught:
        load("toy").tokenizer.encode("the elephant")
    assert "“ cat”" in caught.value.hint


def test_spelling_is_gpt2s() -> None:
    assert spell(b" the\n") == "ĠtheĊ"
    assert all(spelled_bytes(spell(bytes([b]))) == bytes([b]) for b in range(256))


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({}, "no tokenizer"),
        ({"vocab.json": "{"}, "not valid JSON"),
        ({"vocab.json": "[]"}, "object"),
        ({"vocab.json": '{"a": 0}'}, START),
        ({"vocab.json": '{"a": 0, "<|endoftext|>": 1, "中": 2}'}, "中"),
        ({"tokenizer.json": '{"model": {"type": "WordPiece"}}'}, "WordPiece"),
    ],
)
def test_faulty_files_are_named(files: dict[str, str], names: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(CheckpointError, match=names if names != START else "endoftext"):
        load_tokenizer(tmp_path)
