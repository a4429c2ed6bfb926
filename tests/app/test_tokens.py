"""How tokens look: nothing invisible, nothing unescaped, broken bytes as bytes."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup

from app.render.tokens import sentence_html, sentence_text, token_html
from model import load
from model.weights.tokenizer import Tokenizer
from tests.model.models import byte_tokenizer

TOKENIZER = byte_tokenizer(270)


def of_byte(text: str) -> int:
    return 1 + ord(text)


@pytest.mark.parametrize(
    ("token", "html", "text"),
    [
        (0, '<span class="tok">⟨start⟩</span>', "⟨start⟩"),
        (of_byte("<"), '<span class="tok">&lt;</span>', "<"),
        (of_byte("&"), '<span class="tok">&amp;</span>', "&"),
        (of_byte(" "), '<span class="tok"><span class="sp"> </span></span>', "␣"),
        (of_byte("\n"), '<span class="tok">⏎</span>', "⏎"),
        (of_byte("\t"), '<span class="tok">⇥</span>', "⇥"),
        (of_byte("\0"), '<span class="tok bytes">⟨00⟩</span>', "⟨00⟩"),
        (of_byte("\x7f"), '<span class="tok bytes">⟨7F⟩</span>', "⟨7F⟩"),
        (1 + 0xE2, '<span class="tok bytes">⟨E2⟩</span>', "⟨E2⟩"),
        (999, '<span class="tok">⟨unused 999⟩</span>', "⟨unused 999⟩"),
    ],
)
def test_one_token(token: int, html: str, text: str):
    assert token_html(TOKENIZER, token) == html
    assert TOKENIZER.show(token) == text


@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\u00a0", "\u2028", "\ufeff", "\x85"])
def test_signs_that_cannot_be_seen_show_as_bytes(sign: str):
    vocab = {bytes([b]): b + 1 for b in range(256)} | {f"a{sign}".encode(): 257}
    shown = f"⟨{f'a{sign}'.encode().hex(' ').upper()}⟩"
    assert token_html(Tokenizer(vocab, 0), 257) == f'<span class="tok bytes">{shown}</span>'
    assert Tokenizer(vocab, 0).show(257) == shown


def test_every_token_of_the_shipped_model_is_escaped_and_visible():
    tokenizer = load().tokenizer
    for token in range(tokenizer.n_vocab):
        html = token_html(tokenizer, token)
        found = BeautifulSoup(html, "html.parser").span
        assert found is not None and not found.find_all(lambda tag: tag.name != "span")
        assert not re.search(r"[\x00-\x1f\x7f]", html)
        assert tokenizer.show(token).strip()


def test_tokens_in_a_sentence():
    run = load("toy").run("the cat sat")
    plain = "From {t1} & {t2} to {v3}"
    shown = BeautifulSoup(sentence_html(run, plain), "html.parser")
    assert shown.text == "From the &  cat to  sat"
    assert [tag.text for tag in shown.select(".tok")] == ["the", " cat", " sat"]
    assert sentence_text(run, plain) == "From “the” & “␣cat” to “␣sat”"
