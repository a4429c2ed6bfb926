"""What helps to see one kind of number: each op that has a picture, and what its template needs.

`picture(…)` gives one of the classes here; `templates/why/_<kind>.html` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from markupsafe import Markup

from app.panels.why import names as why_names
from app.panels.why.links import Links
from app.panels.why.numbers import exact, short
from app.panels.why.terms import column_text
from app.render import charts, heat, numbers
from app.render.charts import Floats
from app.render.heat import Scale
from app.render.tokens import token_html
from model.address.parser import Address
from model.ops.activation import Gelu, Relu, gelu_tanh
from model.ops.base import minus_log
from model.ops.embedding import Lookup, PositionRow, Tokens
from model.ops.linear import SumProduct
from model.ops.loss import TokenLoss
from model.ops.norm import NormOp
from model.ops.op import Op
from model.ops.softmax import Exponential, Weights

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation
    from model.weights.tokenizer import Tokenizer

MOST_TOKENS = 24

# Op -> the function's name, the function, from where to where it is drawn, and how its value at a number is said.
CURVES: dict[type[Op], tuple[str, Callable[[float], float], float, float, str]] = {
    Relu: ("ReLU", lambda x: max(0.0, x), -3.0, 3.0, "ReLU({})"),
    Gelu: ("GELU", gelu_tanh, -4.0, 3.0, "GELU({})"),
    Exponential: ("e to the power of score − max", math.exp, -5.0, 0.0, "e to the {}"),
    TokenLoss: ("−log p", minus_log, 0.01, 1.0, "−log {}"),
}


@dataclass(frozen=True)
class TokenRow:
    """The text's tokens, each tinted by a number of its own; `gaps` are the tokens left out."""

    kind: ClassVar[str] = "tokens"
    caption: Markup
    cells: tuple[Markup, ...]


@dataclass(frozen=True)
class Drawing:
    """One chart with its caption."""

    kind: ClassVar[str] = "drawing"
    caption: Markup
    chart: Markup


@dataclass(frozen=True)
class NormStep:
    """One of LayerNorm's steps for one position."""

    name: str
    how: str
    link: Markup
    current: bool


@dataclass(frozen=True)
class NormSteps:
    """LayerNorm from mean to out."""

    kind: ClassVar[str] = "norm"
    caption: str
    steps: tuple[NormStep, ...]
    chart: Markup


@dataclass(frozen=True)
class Part:
    """One part of a sum with its bar."""

    name: Markup
    bar: Markup
    value: Markup


@dataclass(frozen=True)
class Parts:
    """A sum in a few parts, e.g. attention's update by head."""

    kind: ClassVar[str] = "parts"
    caption: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class TokenCard:
    """All there is to know of one token."""

    kind: ClassVar[str] = "token"
    token: Markup
    id: str
    bytes: str
    position: str
    row: Markup


Picture = TokenRow | Drawing | NormSteps | Parts | TokenCard


def picture(run: Run, e: Explanation, op: Op, at: tuple[int, ...], links: Links) -> Picture | None:
    """The picture for the number at `at`, or None where the terms say it all."""
    if not math.isfinite(e.value) or e.combine == "given":
        return None
    if isinstance(op, Weights):
        return _weights(run, op, at, links)
    if isinstance(op, SumProduct):
        return _mixed(run, e, at, links) if op.name == "weighted average" else _by_head(e, links)
    if isinstance(op, (Gelu, Exponential, TokenLoss)):
        return _curve(e, op)
    if isinstance(op, NormOp):
        return _norm(run, op, at, links)
    if isinstance(op, (Lookup, PositionRow)):
        return _row(run, op, at)
    return _card(run, at, links) if isinstance(op, Tokens) else None


# -- attention


def _weights(run: Run, op: Weights, at: tuple[int, ...], links: Links) -> TokenRow:
    """One query's weights over the tokens it may look at."""
    h, q, k = at
    row = _numbers(run, op.out, h, q)
    cells = token_cells(
        run,
        row[: max(q, k) + 1],
        lambda n: f"{op.out}[{h},{q},{n}]",
        [numbers.percent(x) for x in row[: max(q, k) + 1].tolist()],
        links,
        shares=True,
        current=k,
    )
    return TokenRow(Markup("Where {} looks, head {}").format(why_names.place(run, "query", q), h), cells)


def _mixed(run: Run, e: Explanation, at: tuple[int, ...], links: Links) -> TokenRow:
    """What each token contributes to one entry of a head's mix: its weight times its value."""
    q, h, c = at
    attn = e.site.rpartition(".")[0]
    cells = token_cells(
        run,
        e.products[: q + 1],
        lambda n: f"calc({attn}.pattern[{h},{q},{n}]*{attn}.v[{n},{h},{c}])",
        column_text(e.products[: q + 1].tolist(), 3),
        links,
    )
    return TokenRow(Markup("What each token contributes: its weight × its value"), cells)


def token_cells(
    run: Run,
    values: Floats,
    address: Callable[[int], str],
    shown: list[str],
    links: Links,
    *,
    shares: bool = False,
    current: int | None = None,
) -> tuple[Markup, ...]:
    """The text's first tokens, each with its number and a tint; of too many the largest, the gaps counted."""
    size = np.nan_to_num(np.abs(values))
    tints = (Scale(1.0, 1.0) if shares else Scale(float(size.max()))).steps(values)
    cells, before = [], -1
    for n in _kept(size, current):
        if n > before + 1:
            cells.append(_gap(n - before - 1))
        inside = token_html(run.model.tokenizer, run.tokens[n]) + Markup("<small>{}</small>").format(shown[n])
        css, at = f"tinted {heat.css(int(tints[n]))}".rstrip(), address(n)
        cells.append(links.to(at, inside, css=css, title=f"position {n}", current=n == current))
        before = n
    return (*cells, _gap(len(values) - 1 - before)) if before < len(values) - 1 else tuple(cells)


def _kept(size: Floats, current: int | None) -> list[int]:
    """Which tokens to show, in the text's order: the largest, and the one the reader is at."""
    largest = np.argsort(-size, kind="stable")[:MOST_TOKENS].tolist()
    if current is not None and current not in largest:
        largest[-1] = current
    return sorted(largest)


def _gap(n: int) -> Markup:
    return Markup('<span class="gap">{} more</span>').format(n)


def _by_head(e: Explanation, links: Links) -> Parts | None:
    """Attention's update as what each head writes, and the bias."""
    if not e.subtotals:
        return None
    named = [(f"head {part.place}", part.value, part.address) for part in e.subtotals]
    heads = sum(part.value for part in e.subtotals)
    named.append(
        ("bias", float(e.products.sum()) - heads, f"{e.site.removesuffix('_out')}.b_O[{_last_index(e.address)}]")
    )
    shown = column_text([x for _, x, _ in named])
    most = numbers.largest([x for _, x, _ in named])
    parts = tuple(
        Part(Markup(name), charts.signed_bar(x, most, 160), links.to(at, text, title=at))
        for (name, x, at), text in zip(named, shown, strict=True)
    )
    return Parts("The same total by head", parts)


def _last_index(address: str) -> str:
    return address.rpartition(",")[2].removesuffix("]")


# -- functions


def _curve(e: Explanation, op: Op) -> Drawing | None:
    """The function with this number's point on it."""
    x = float(e.products.sum())
    if not math.isfinite(x):
        return None
    name, f, low, high, said = CURVES[type(op)]
    if isinstance(op, TokenLoss) and not 0 < x <= 1:
        low, high, x = 0.01, 1.0, math.exp(-e.value)
    label = f"The curve of {name}; here it turns {exact(x)} into {exact(e.value)}."
    says = f"{said.format(short(x))} = {short(e.value)}"
    side = "right" if isinstance(op, TokenLoss) else "left"
    chart = charts.curve(f, x, low, high, label=label, says=says, side=side)
    return Drawing(Markup("{}, and where this number lies on it").format(name), chart)


# -- LayerNorm


def _norm(run: Run, op: NormOp, at: tuple[int, ...], links: Links) -> NormSteps:
    """Mean, variance, scale, normalised and out at this position (and entry, where one is chosen)."""
    t, entry = at[0], at[1] if len(at) > 1 else None
    d = numbers.count(run.model.config.d_model)
    steps = [
        ("mean", "mean", f"of {d} numbers"),
        ("var", "variance", "average squared distance"),
        ("scale", "scale", "√(variance + ε)"),
        ("normalized", "normalised", "(x − mean) ÷ scale"),
        ("out", "out", "× w + b"),
    ]
    found = []
    for site, name, how in steps:
        index = (t,) if site in ("mean", "var", "scale") else (t, entry) if entry is not None else (t, slice(None))
        address = str(Address(f"{op.ln}.{site}", index))
        single = slice(None) not in index
        shown = exact(float(run.values(address))) if single else f"{d} numbers"
        current = site == op.site
        link = Markup("<b>") + shown + Markup("</b>") if current else links.to(address, shown, title=address)
        found.append(NormStep(name, how, link, current))
    return NormSteps(f"LayerNorm at position {t}, step by step", tuple(found), _spread(run, op, t, entry))


def _spread(run: Run, op: NormOp, t: int, entry: int | None) -> Markup:
    """The numbers that are normalised: their mean, their scale to either side, the entry chosen."""
    values = _numbers(run, op.x, t)
    mean, scale = (float(_numbers(run, f"{op.ln}.{site}", t)) for site in ("mean", "scale"))
    mark = None if entry is None else float(values[entry])
    label = f"How the {len(values)} numbers lie: mean {exact(mean)}, most of them within {exact(scale)} of it."
    return charts.spread(values, mean, scale, mark, label)


# -- lookups


def _row(run: Run, op: Lookup | PositionRow, at: tuple[int, ...]) -> Drawing:
    """The row of the table that was picked, the entry shown marked."""
    t, m = at
    table, row = ("W_E", run.tokens[t]) if isinstance(op, Lookup) else ("W_pos", t)
    values = _numbers(run, table, row)
    caption = Markup("Row {} of <code>{}</code>, entry {} marked").format(row, table, m)
    label = f"Row {row} of {table}: {len(values)} numbers; entry {m} is {exact(float(values[m]))}."
    return Drawing(caption, charts.strip(values, m, label))


def _numbers(run: Run, site: str, *front: int) -> Floats:
    return np.asarray(run.tensor(site).numpy()[front], dtype=np.float64)


def _spelled(tokenizer: Tokenizer, token: int) -> str:
    """A token's bytes in hexadecimal, or why it has none."""
    if token == tokenizer.start_id:
        return "none: it marks a start"
    return tokenizer.bytes(token).hex(" ").upper() or "none: no word has this id"


def _card(run: Run, at: tuple[int, ...], links: Links) -> TokenCard:
    token = run.tokens[at[0]]
    tokenizer = run.model.tokenizer
    row = f"W_E[{token},:]"
    return TokenCard(
        token=token_html(tokenizer, token),
        id=numbers.count(token),
        bytes=_spelled(tokenizer, token),
        position=str(at[0]),
        row=links.to(row, why_names.short(run, row), title=row),
    )
