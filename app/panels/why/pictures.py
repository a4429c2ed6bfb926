"""What helps to see one kind of number: a picture for each kind that an op names.

`picture(…)` says what `templates/why/_<kind>.html` draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from app.panels.why import names as why_names
from app.panels.why.links import Links
from app.render import charts, heat, numbers
from app.render.charts import Floats
from app.render.figures import column_text
from app.render.heat import Scale
from app.render.numbers import exact, short
from app.render.tokens import token_html
from model.address.parser import Address

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation
    from model.ops.op import Op

MOST_TOKENS = 24


@dataclass(frozen=True)
class Picture:
    """A caption with one chart, or with rows of what its kind of template shows, or both."""

    kind: str
    caption: str | Markup
    chart: Markup = Markup("")
    rows: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Shown:
    """The number that a picture is for: its explanation, the op that made it, its place, and links from there."""

    run: Run
    e: Explanation
    op: Any  # the op that names the kind of picture: with all that this kind reads
    at: tuple[int, ...]
    links: Links

    def row(self, site: str, *front: int) -> Floats:
        """The numbers of a site whose places begin so."""
        return np.asarray(self.run.tensor(site).numpy()[front], dtype=np.float64)


def picture(run: Run, e: Explanation, op: Op, at: tuple[int, ...], links: Links) -> Picture | None:
    """The picture for the number at `at`, or None where the terms say it all."""
    draw = PICTURES.get(op.picture)
    if draw is None or not math.isfinite(e.value) or e.combine == "given":
        return None
    return draw(Shown(run, e, op, at, links))


def chart(caption: str | Markup, drawn: Markup) -> Picture:
    """One chart with its caption."""
    return Picture("drawing", caption, drawn)


def parts(caption: str, named: list[tuple[str, float, str]], width: int, links: Links) -> Picture:
    """A sum in a few parts, each a name, a value, and an address if it has one."""
    values = [value for _, value, _ in named]
    most = numbers.largest(values)
    rows = tuple(
        (name, charts.signed_bar(value, most, width), links.to(at, text, title=at) if at else text)
        for (name, value, at), text in zip(named, column_text(values), strict=True)
    )
    return Picture("parts", caption, rows=rows)


# -- attention


def _weights(shown: Shown) -> Picture:
    """One query's weights over the tokens it may look at."""
    h, q, k = shown.at
    out = shown.op.out
    row = shown.row(out, h, q)[: max(q, k) + 1]
    texts = [numbers.percent(x) for x in row.tolist()]
    cells = token_cells(shown, row, lambda n: f"{out}[{h},{q},{n}]", texts, shares=True, current=k)
    caption = Markup("Where {} looks, head {}").format(why_names.place(shown.run, "query", q), h)
    return Picture("tokens", caption, rows=cells)


def _tokens(shown: Shown) -> Picture:
    """What each token contributes to one entry of a head's mix: its weight times its value."""
    group = shown.op.forward(shown.run, shown.at).groups[0]
    products = shown.e.products[: shown.at[0] + 1]
    cells = token_cells(
        shown,
        products,
        lambda n: f"calc({'*'.join(factor.address(n) for factor in group.factors)})",
        column_text(products.tolist(), 3),
    )
    return Picture("tokens", "What each token contributes: its weight × its value", rows=cells)


def token_cells(
    shown: Shown,
    values: Floats,
    address: Callable[[int], str],
    texts: list[str],
    *,
    shares: bool = False,
    current: int | None = None,
) -> tuple[Markup, ...]:
    """The text's first tokens, each with its number and a tint; of too many the largest, the gaps counted."""
    run = shown.run
    size = np.nan_to_num(np.abs(values))
    tints = (Scale(1.0, 1.0) if shares else Scale(float(size.max()))).steps(values)
    cells, before = [], -1
    for n in _kept(size, current):
        if n > before + 1:
            cells.append(_gap(n - before - 1))
        inside = token_html(run.model.tokenizer, run.tokens[n]) + Markup("<small>{}</small>").format(texts[n])
        css, at = f"tinted {heat.css(int(tints[n]))}".rstrip(), address(n)
        cells.append(shown.links.to(at, inside, css=css, title=f"position {n}", current=n == current))
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


def _by_head(shown: Shown) -> Picture:
    """A sum as its subtotals (attention's update as what each head writes), and the bias."""
    e = shown.e
    named = [(f"{part.axis} {part.place}", part.value, part.address) for part in e.subtotals]
    if shown.op.bias:
        bias = Address(shown.op.bias.site, shown.at[-1:])
        named.append(("bias", float(e.products.sum()) - sum(part.value for part in e.subtotals), str(bias)))
    return parts("The same total by head", named, 160, shown.links)


# -- functions


def _curve(shown: Shown) -> Picture | None:
    """The function with this number's point on it."""
    e, curve = shown.e, shown.op.function.curve
    x = float(e.products.sum())
    if e.function is None and curve.inverse:  # the rule goes round the function
        x = curve.inverse(e.value)
    if not math.isfinite(x):
        return None
    label = f"The curve of {curve.name}; here it turns {exact(x)} into {exact(e.value)}."
    says = f"{curve.says.format(short(x))} = {short(e.value)}"
    side = "right" if curve.falls else "left"
    drawn = charts.curve(curve.f, x, curve.low, curve.high, label=label, says=says, side=side)
    return chart(Markup("{}, and where this number lies on it").format(curve.name), drawn)


# -- normalising


def _norm(shown: Shown) -> Picture:
    """A norm's steps at this position (and entry, where one is chosen)."""
    run, op = shown.run, shown.op
    t, entry = shown.at[0], shown.at[1] if len(shown.at) > 1 else None
    rows = []
    for stage, node in run.model.graph.row(run.model.graph[op.out]):
        index = (t, slice(None) if entry is None else entry)[: len(node.axes)]
        address = str(Address(node.name, index))
        name, how = (stage.words, stage.how) if stage.how else (node.short, stage.words)
        text = f"{numbers.count(run.size(node.axes[-1]))} numbers"
        if slice(None) not in index:
            text = exact(float(run.values(address)))
        is_here = node.name == op.out
        link = Markup("<b>") + text + Markup("</b>") if is_here else shown.links.to(address, text, title=address)
        rows.append((name, run.model.graph.with_sizes(how), link, is_here))
    caption = f"{stage.row.removeprefix('Steps of ')} at position {t}, step by step"  # LayerNorm, RMSNorm
    return Picture("norm", caption, _spread(shown, t, entry), tuple(rows))


def _spread(shown: Shown, t: int, entry: int | None) -> Markup:
    """The numbers that are normalised: their mean, their scale to either side, the entry chosen."""
    values = shown.row(shown.op.x, t)
    centre = f"{shown.op.ln}.mean"
    has_mean = centre in shown.run.model.graph  # RMSNorm measures from 0
    mean = float(shown.row(centre, t)) if has_mean else 0.0
    scale = float(shown.row(f"{shown.op.ln}.scale", t))
    mark = None if entry is None else float(values[entry])
    middle = (
        f"mean {exact(mean)}, most of them within {exact(scale)} of it" if has_mean else f"most within ±{exact(scale)}"
    )
    label = f"How the {len(values)} numbers lie: {middle}."
    return charts.spread(values, mean, scale, mark, label)


# -- lookups


def _row(shown: Shown) -> Picture:
    """The row of the table that was picked, the entry shown marked."""
    t, m = shown.at
    table, row = shown.op.row(shown.run, t)
    values = shown.row(table, row)
    caption = Markup("Row {} of <code>{}</code>, entry {} marked").format(row, table, m)
    label = f"Row {row} of {table}: {len(values)} numbers; entry {m} is {exact(float(values[m]))}."
    return chart(caption, charts.strip(values, m, label))


PICTURES: dict[str, Callable[[Shown], Picture | None]] = {
    "curve": _curve,
    "norm": _norm,
    "parts": _by_head,
    "row": _row,
    "tokens": _tokens,
    "weights": _weights,
}
