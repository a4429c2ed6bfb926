"""The file of the last section, the very one that runs: each line with its section and a number that it makes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from model import tiny


@dataclass(frozen=True)
class Line:
    """One line. `section` is where it is explained, `address` a number of the toy's run that such a line makes."""

    html: Markup
    section: str
    label: str
    address: str


# From the line that holds the text on: section, its label, and for that line alone an address in the toy's run.
PLACES: tuple[tuple[str, str, str, str], ...] = (
    ("class Block", "block", "5 block", ""),
    ("self.heads = heads", "heads", "3 heads", ""),
    ("self.norm1, self.norm2", "normalise", "5 normalise", ""),
    ("self.qkv, self.join", "lookup", "3 lookup", ""),
    ("self.widen, self.narrow", "feed-forward", "4 widen", ""),
    ("def attend", "recipe", "3 recipe", ""),
    ("q, k, v = ", "heads", "3 heads", "blocks.0.attn.q[2,0,0]"),
    ("scores = q @ k", "scale", "3 divide", "blocks.0.attn.scores[0,2,1]"),
    ("future = ", "mask", "3 mask", "blocks.0.attn.scores[0,1,2]"),
    ("weights = scores", "recipe", "3 recipe", "blocks.0.attn.pattern[0,2,1]"),
    ("joined: Tensor", "heads", "3 heads", "blocks.0.attn_out[2,0]"),
    ("def forward(self, x", "block", "5 block", ""),
    ("x = x + self.attend", "add", "5 add", "blocks.0.resid_mid[2,0]"),
    ("matches = ", "feed-forward", "4 widen", "blocks.0.mlp.pre[2,0]"),
    ("update: Tensor", "bend", "4 bend", "blocks.0.mlp_out[2,0]"),
    ("return x + update", "add", "5 add", "blocks.0.resid_post[2,0]"),
    ("class TinyGPT", "guess", "1 guess", ""),
    ("self.tokens, self.positions", "vectors", "2 vectors", ""),
    ("self.blocks = ", "block", "5 block", ""),
    ("self.norm = ", "normalise", "5 normalise", ""),
    ("nn.init.normal_", "vectors", "2 vectors", ""),
    ("def forward(self, ids", "guess", "1 guess", ""),
    ("x = self.tokens(ids)", "where", "2 where", "blocks.0.resid_pre[2,0]"),
    ("h: Tensor", "block", "5 block", "ln_final.out[2,0]"),
    ("return h @", "word", "7 word", "logits[2,4]"),
    ("def train_step", "learning", "8 learn", ""),
    ("logits = model(ids[:, :-1])", "examples", "8 examples", "logits[0,2]"),
    ("loss = ", "loss", "8 loss", "loss_per_token[0]"),
    ("optimizer.zero_grad", "correction", "8 correct", ""),
    ("return loss.item", "loss", "8 loss", ""),
    ("def generate", "append", "7 append", ""),
    ("logits = model(ids[:, -model", "word", "7 word", "logits[2,4]"),
    ("odds = ", "temperature", "7 temperature", "probs[2,4]"),
    ("ids = torch.cat", "append", "7 append", ""),
)


@lru_cache(maxsize=1)
def lines() -> tuple[Line, ...]:
    """Every line of model/tiny.py."""
    source = inspect.getsource(tiny).rstrip("\n")
    marked = highlight(source, PythonLexer(), HtmlFormatter(nowrap=True, classprefix="hl-")).rstrip("\n").split("\n")
    waiting, section, label = list(PLACES), "", ""
    found = []
    for text, html in zip(source.split("\n"), marked, strict=True):
        address = ""
        if waiting and waiting[0][0] in text:
            _, section, label, address = waiting.pop(0)
        shown = section if text.strip() else ""
        found.append(Line(Markup(html), shown, label, address))
    if waiting:
        raise ValueError(f"model/tiny.py has no line with “{waiting[0][0]}” where the lesson expects it")
    return tuple(found)
