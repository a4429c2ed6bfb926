"""What readers and programs may send: texts that would break out of HTML, addresses right and wrong, odd numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

from hypothesis import strategies as st

from app.parts.base import Part
from model.arch.base import Node
from model.arch.gpt2.config import GPT2Config
from model.arch.graph import Graph

# The name that all markup in a drawn text bears: where an element or an attribute of a page does, a text broke out.
MARK = "xq"

BREAKING = [
    f"<{MARK}>", f"</{MARK}", f"<{MARK} on{MARK}=1 ", f'" on{MARK}="1', f"' on{MARK}='1", f" {MARK}=1 ", ">", "<", '"',
    "'", "`", "&", f"&lt;{MARK}&gt;", f"&{MARK};", "&#60;", "=", "/", "\\", f"</title><{MARK}>", f"</textarea><{MARK}>",
    f"</script><{MARK}>", f"<!--{MARK}", "-->", f"]]><{MARK}>", f"{{{{{MARK}}}}}", f"{{% {MARK} %}}", f"${{{MARK}}}",
    f"javascript:{MARK}", f"data:text/html,<{MARK}>", f"//{MARK}.example", "\x00", "\r\n", "\t", "\u2028", "\u202e",
    "\ufeff", "\ud83d", "\uffff", "🙂", "e\u0301", "中", "ال", "word", " Mary", "%", "%00", "%3C", "+", ";", "#", "?",
    "~",
]  # fmt: skip

# d_vocab is a lower bound of the real
CONFIG = GPT2Config(n_layer=1, n_head=2, d_model=8, d_mlp=32, d_vocab=300, n_ctx=32)
GRAPH = Graph(CONFIG)
QUANTITIES = ["", "", "", ".grad", ".grad", ".step", ".step(3)", ".grad(2)", ".m(1)", ".v(2)", ".step(0)", ".step(51)",
              ".step(-1)", ".grad.step", f".{MARK}", "."]  # fmt: skip

ODD_NUMBERS = [
    "", "0", "1", "2", "7", "-1", "-0", "00", "0.5", "1,5", ".5", "1e3", "1e999", "-1e999", "nan", "inf", "-inf", "NaN",
    "1_0", " 3 ", "+3", "−3", "0x10", "１２", "١٢", "½", "²", "9" * 30, "1" + "0" * 400, "true", "None", "1.0",
    "5e-324", "2147483648", "9223372036854775808", MARK, f'"><{MARK}>', "\x00",
]  # fmt: skip

breaking_texts = st.lists(st.sampled_from(BREAKING), max_size=8).map("".join)
token_ids = st.lists(st.integers(0, 400), min_size=1, max_size=6).map(lambda ids: "ids:" + ",".join(map(str, ids)))
texts = st.one_of(
    st.just("the cat sat"),
    breaking_texts,
    token_ids,
    st.text(max_size=20),
    st.sampled_from(["", " ", "\n", "ids:", "ids:1,", "ids:99999999", "word " * 200, "x" * 5000, "a" * 20_000]),
)
numbers = st.one_of(st.sampled_from(ODD_NUMBERS), st.integers(0, 60).map(str), st.floats().map(str))
switches = st.one_of(st.sampled_from(["0", "1", "", "on", "off", "true", "2", MARK]), breaking_texts)
models = st.sampled_from(["", "", "", "toy", "toy", "../toy", "/etc/passwd", "nobody", "gpt2", f"<{MARK}>", "a" * 300])
targets = st.one_of(
    st.sampled_from(["", "", "sequence", "id:3", "id:", "id:-1", "id:99999999999", " Mary", " cat", "cat sat"]),
    breaking_texts,
)


@st.composite
def indices(draw: st.DrawFn, size: int) -> str:
    """One index of an axis of that size: inside, at its edge, outside, a slice, or none at all."""
    inside = st.integers(0, size - 1).map(str)
    near = st.integers(-1, size + 1).map(str)
    slices = st.tuples(st.one_of(inside, st.just("")), st.one_of(near, st.just(""))).map(":".join)
    return draw(st.one_of(inside, inside, inside, near, slices, st.sampled_from(ODD_NUMBERS)))


@st.composite
def places(draw: st.DrawFn) -> str:
    """A site or parameter with indices, mostly right ones."""
    node: Node = draw(st.sampled_from(list(GRAPH)))
    shape = GRAPH.shape(node.name, 4)
    if not shape:
        return node.name + draw(st.sampled_from(QUANTITIES))
    given = [draw(indices(size)) for size in shape]
    if draw(st.integers(0, 9)) == 0:
        given = draw(st.sampled_from([given[:-1], [*given, "0"], [], [""]]))
    return f"{node.name}[{','.join(given)}]{draw(st.sampled_from(QUANTITIES))}"


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions from smaller ones."""
    functions = st.sampled_from(["exp", "log", "sqrt", "max", "sum", "mean", "abs", "dot", "positive", "acos", MARK])
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/×÷−^ "), inner).map("".join),
        st.tuples(functions, inner).map(lambda pair: f"{pair[0]}({pair[1]})"),
        st.tuples(inner, indices(9)).map(lambda pair: f"partial({pair[0]},{pair[1]})"),
        inner.map(lambda one: f"({one})"),
    )


expressions = st.recursive(st.one_of(places(), st.sampled_from(ODD_NUMBERS)), larger, max_leaves=4)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> str:
    """One with a piece cut out and another put in."""
    text = draw(whole)
    start = draw(st.integers(0, len(text)))
    return text[:start] + draw(st.sampled_from(BREAKING)) + text[start + draw(st.integers(0, 3)) :]


addresses = st.one_of(
    places(),
    places(),
    expressions.map(lambda tree: f"calc({tree})"),
    damaged(places()),
    breaking_texts,
    st.sampled_from(
        ["", "loss", "logits", "calc()", "calc(" + "(" * 300, "[" * 50, "a." * 2000, "blocks.99.attn.q[0,0,0]"]
    ),
)
changes = st.one_of(
    st.tuples(addresses, numbers).map("=".join), st.tuples(places(), numbers).map("=".join), breaking_texts
)
trails = st.lists(addresses, max_size=4).map("~".join)
picks = st.one_of(st.tuples(numbers, numbers).map(":".join), breaking_texts)

# Parameter -> what it is given. A page gets some that it reads and some that it does not.
PARAMETERS: dict[str, st.SearchStrategy[str]] = {
    "model": models, "text": texts, "target": targets, "bos": switches, "at": addresses, "trail": trails,
    "set": changes, "draft": changes, "pick": picks, "stop": breaking_texts,
    "order": st.sampled_from(["size", "index", "", MARK]), "optimizer": st.sampled_from(["sgd", "adamw", "", MARK]),
    "format": st.sampled_from(["json", "csv", "npy", "html", "ipynb", "xml", "", MARK]),
    **dict.fromkeys(["row", "col", "offset", "after", "nudge", "eta", "steps", "limit", "temperature", "top_k", "top_p",
                     "seed", "n", "step", "first", "block", "number"], numbers),
    **dict.fromkeys(["compare", "go", "all", "print"], switches),
    "theme": st.sampled_from(["light", "dark", "auto", MARK]),
    "accent": st.one_of(st.sampled_from(["red", "#123456", "0,0,0"]), breaking_texts),
    "hide": breaking_texts, "url": breaking_texts, "maxwidth": numbers, "maxheight": numbers,
}  # fmt: skip


@st.composite
def queries(draw: st.DrawFn, *always: str, odd: int = 4) -> list[tuple[str, str]]:
    """Query parameters: those named, and up to `odd` others; now and then one twice. The text is mostly a short one."""
    names = [*always, *draw(st.lists(st.sampled_from(list(PARAMETERS)), max_size=odd))]
    pairs = [(name, draw(PARAMETERS[name])) for name in names]
    if "text" not in names:
        pairs.append(("text", "the cat sat"))
    return pairs


def url(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    """A path with its query; a lone surrogate becomes bytes that are no UTF-8."""
    return f"{path}?{urlencode(pairs, errors='surrogatepass')}"


@st.composite
def settings_of(draw: st.DrawFn, part: Part) -> list[tuple[str, str]]:
    """A live part's own settings: what they may be, what is next to that, and what no setting is."""
    pairs = []
    for name, field in part.settings.model_json_schema().get("properties", {}).items():
        near: list[Callable[[Any], Any]] = [lambda x: x, lambda x: x - 1, lambda x: x + 1]
        bounds = [str(step(field[end])) for end in ("minimum", "maximum") if end in field for step in near]
        known = [str(x) for x in field.get("enum", [])] + bounds + [str(field.get("default", ""))]
        pairs.append((name, draw(st.one_of(st.sampled_from(known), numbers, breaking_texts, addresses))))
    return [pair for pair in pairs if draw(st.booleans())]
