"""The table of numbers in view: each a link, tinted by size, with its row and column named at the edge.

Rows and cells leave out their end tags, as HTML allows: a tenth of a page of numbers would be end tags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.panels.values.stages import onward
from app.panels.values.summary import is_too_large, part, summary, whole
from app.panels.values.window import MOST, Span, Window
from app.render import numbers
from app.render.axes import place_html
from app.render.figures import Figures
from app.render.heat import Scale, css
from app.render.links import Links
from app.render.templating import Context
from app.render.tokens import token_html
from model.address.parser import Address
from model.runtime.run import Run

Array = NDArray[Any]


def grid(run: Run, shown: Window, links: Links) -> Context:
    """Rows × columns of numbers; of a wrapped axis, lines of 16. `onward` is what the chosen row becomes."""
    values = _values(run, shown)
    figures = Figures(_unmasked(shown, values))
    steps = scale_of(run, shown, values).steps(values)
    rows = []
    for y, r in enumerate(shown.rows.places):
        line = [_row_head(run, shown, r)]
        for x, c in enumerate(shown.cols.places):
            if not shown.has(r, c):
                break
            kind = "masked" if shown.masks(r, c) else css(int(steps[y, x]))
            line.append(_cell(links, shown.at(r, c), figures.show(float(values[y, x])), kind, shown.chosen == (r, c)))
        rows.append(f"<tr>{''.join(line)}\n")
    return {
        "caption": _caption(shown),
        "corner": f"{shown.rows.axis} \\ {shown.cols.axis}" if shown.kind == "grid" else shown.rows.axis,
        "head": Markup("").join(_col_head(run, shown, c) for c in shown.cols.places),
        "rows": Markup("".join(rows)),
        "n_cols": len(shown.cols.places),
        "figures": figures,
        "row": shown.rows.on.start,
        "onward": _onward(run, shown, links),
    }


def _values(run: Run, shown: Window) -> Array:
    """The numbers in view as a matrix; the end of a wrapped axis is filled up with zeros."""
    values = part(run, shown.address, shown.index)
    if shown.kind == "wrap":
        return np.pad(values, (0, len(shown.rows.places) * MOST - len(values))).reshape(-1, MOST)
    return values


def scale_of(run: Run, shown: Window, values: Array) -> Scale:
    """The heat of the whole tensor; where that is too large to look at, of the numbers in view."""
    if not is_too_large(run, shown.address):
        return summary(run, whole(shown.address)).scale
    finite = np.abs(values[np.isfinite(values)])
    return Scale(float(finite.max()) if finite.size else 0.0)


def _unmasked(shown: Window, values: Array) -> Array:
    """The numbers that count for the choice of decimals: all, where nothing is masked."""
    if not shown.is_masked or len(shown.fixed) != 1 or shown.fixed[0][0] != 0:
        return values
    rows = np.arange(shown.rows.start, shown.rows.stop)[:, None]
    cols = np.arange(shown.cols.start, shown.cols.stop)[None, :]
    kept: Array = values[cols <= rows]
    return kept if kept.size else values


def _cell(links: Links, at: str, text: str, kind: str, is_chosen: bool) -> str:
    named = f' class="{kind}"' if kind else ""
    return f"<td{named}>{links.number(at, text, current=is_chosen)}"


def _row_head(run: Run, shown: Window, r: int) -> str:
    on = ' class="on"' if r in shown.rows.on else ""
    if shown.kind == "wrap":
        return f'<th scope="row"{on}><span class="i">{numbers.count(r * MOST)} +</span>'
    return f'<th scope="row"{on}>{place_html(run, shown.rows.axis, r, index_first=False)}'


def _col_head(run: Run, shown: Window, c: int) -> Markup:
    on = Markup(' class="on"') if c in shown.cols.on else ""
    if shown.kind == "grid":
        name = place_html(run, shown.cols.axis, c, index_first=True)
    else:
        name = Markup('<span class="i">{}</span>').format(c)
    return Markup('<th scope="col"{}>{}</th>').format(on, name)


def _caption(shown: Window) -> str:
    """What the table holds, for those who hear it."""
    rows, cols = shown.rows, shown.cols
    if shown.kind == "wrap":
        last = min(rows.stop * MOST, shown.n) - 1
        return f"{shown.address.site}, {rows.axis} {rows.start * MOST} to {last}, 16 to a line"
    return f"{shown.address.site}, {_extent(rows)} by {_extent(cols)}"


def _extent(span: Span) -> str:
    return f"{span.axis} {span.start} to {span.stop - 1}"


def _onward(run: Run, shown: Window, links: Links) -> Markup:
    """What the numbers of the chosen row become at the next sites, under the same columns."""
    node = run.model.graph[shown.address.site]
    if shown.kind != "grid" or len(shown.rows.on) != 1 or shown.address.quantity:
        return Markup("")
    r = shown.rows.on.start
    rows = []
    for site, words in onward(run, node):
        index = tuple(r if a == _row_axis(shown) else i for a, i in enumerate(shown.plane))
        values = run.tensor(site).numpy()[index][shown.cols.start : shown.cols.stop]
        scale, figures = summary(run, Address(site)).scale, Figures(values)
        line = [f'<th scope="row">{words}{f" × {figures.unit}" if figures.unit else ""}']
        for c, x in zip(shown.cols.places, values.tolist(), strict=True):
            kind = "masked" if shown.masks(r, c) else _tint(scale, x)
            place = str(shown.at(r, c)).replace(shown.address.site, site, 1)
            line.append(_cell(links, place, figures.show(x), kind, False))
        rows.append(f"<tr{' class=tiny' if figures.is_tiny and not figures.unit else ''}>{''.join(line)}\n")
    return Markup("".join(rows))


def _row_axis(shown: Window) -> int:
    return next(a for a in range(len(shown.axes)) if a not in dict(shown.fixed))


def _tint(scale: Scale, x: float) -> str:
    return css(int(scale.steps(np.array([x]))[0]))


# -- one number for each position


def listing(run: Run, shown: Window, links: Links) -> Context:
    """A row for each position: its token, its number, and a bar; for the loss also the token it was scored on."""
    site = shown.address.site
    values = part(run, shown.address, shown.index)
    of = summary(run, whole(shown.address))
    figures, scale = Figures(values), of.scale
    is_scored, is_id = site == "loss_per_token", site == "tokens"
    rows = []
    for r, x in zip(shown.rows.places, values.tolist(), strict=True):
        line = _row_head(run, shown, r)
        line += f'<td class="next">{token_html(run.model.tokenizer, run.next_token(r))}' if is_scored else ""
        line += _cell(links, shown.at(r, 0), figures.show(x), "" if is_id else _tint(scale, x), shown.chosen == (r, 0))
        line += "" if is_id else f'<td class="size">{_bar(x, scale, is_signed=bool(of.low < 0))}'
        rows.append(f"<tr>{line}\n")
    title = "id" if is_id else "loss" if is_scored else site.rsplit(".", 1)[-1]
    head = [f'<th scope="col">{name}</th>' for name in (["predicts"] if is_scored else []) + [title]]
    head += [] if is_id else ['<td class="size"></td>']
    return {
        "caption": f"{site}, pos {shown.rows.start} to {shown.rows.stop - 1}",
        "corner": "after" if is_scored else "pos",
        "head": Markup("".join(head)),
        "rows": Markup("".join(rows)),
        "n_cols": len(head),
        "figures": figures,
        "onward": "",
    }


def _bar(x: float, scale: Scale, *, is_signed: bool) -> str:
    """The number's size beside the largest; where some are negative, those go to the left of the middle."""
    share = 0.0 if not (np.isfinite(x) and scale.largest) else 100 * abs(x) / scale.largest
    side = "down" if x < 0 else "up"
    start = 100 - share if x < 0 else 100 * is_signed
    return (
        f'<svg class="sizebar" viewBox="0 0 {100 + 100 * is_signed} 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{side}" x="{start:.1f}" width="{share:.1f}" height="8"/></svg>'
    )
