"""How tokens look: spaces and line ends visible, broken UTF-8 as bytes, the start token by name."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from model import Run
    from model.weights.tokenizer import Tokenizer

SPACE = '<span class="sp"> </span>'
PLACEHOLDER = re.compile(r"\{([tv])(\d+)\}")


def token_html(tokenizer: Tokenizer, token: int) -> Markup:
    """`<span class="tok">` with each space as a drawn one, ⏎ and ⇥ for line end and tab, ⟨E2 82⟩ for bytes."""
    text = tokenizer.readable(token)
    if text is None:
        css = "tok" if token == tokenizer.start_id or token >= tokenizer.n_vocab else "tok bytes"
        return Markup(f'<span class="{css}">{escape(tokenizer.show(token))}</span>')
    shown = escape(text).replace(" ", SPACE).replace("\n", "⏎").replace("\t", "⇥")
    return Markup(f'<span class="tok">{shown}</span>')


def sentence_html(run: Run, plain: str) -> Markup:
    """A sentence of `Explanation.plain`: {t3} becomes the token at position 3, {v17} vocabulary entry 17."""
    return Markup(PLACEHOLDER.sub(lambda match: token_html(run.model.tokenizer, _id(run, match)), escape(plain)))


def sentence_text(run: Run, plain: str) -> str:
    """The same in plain text."""
    return PLACEHOLDER.sub(lambda m: f"“{run.model.tokenizer.show(_id(run, m))}”", plain)


def _id(run: Run, match: re.Match[str]) -> int:
    n = int(match[2])
    return run.tokens[n] if match[1] == "t" else n
