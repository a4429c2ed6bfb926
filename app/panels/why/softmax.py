"""The table of a softmax: for each place of its row the number before, its exponential, and its share after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from app.panels.why import names as why_names
from app.panels.why.links import Links
from app.panels.why.table import NO_BAR, row
from app.render import charts, numbers
from app.render.figures import column_text
from app.render.templating import Context
from model.address.parser import Address
from model.arch.base import AXES
from model.ops.softmax import Softmax

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation
    from model.ops.base import Place


class SoftmaxTable:
    """The number itself comes first, in the accent; then the denominators listed."""

    def __init__(self, run: Run, e: Explanation, op: Softmax, at: Place, links: Links) -> None:
        self.run, self.e, self.op, self.links = run, e, op, links
        *self.row, self.chosen = at
        self.axis = run.model.graph[op.out].axes[-1]
        self.total = float(e.products[1:].sum())
        listed = [term.place[0][1] for term in e.terms if term.place]
        self.places = listed if self.chosen in listed else [self.chosen, *listed]

    def table(self) -> Context:
        before, after = self.op.words
        n = self.e.n_terms - 1
        rows = self._rows()
        if others := n - len(self.places):  # the number itself stands on top, so it is none of them
            rest = self.total - float(self.e.products[1:][self.places].sum())
            rows.append(self._summary(f"the other {numbers.count(others)}", max(rest, 0.0), "rest"))
        rows.append(self._summary(f"all {numbers.count(n)}", self.total, "total"))
        return {
            "heads": (AXES[self.axis].word, before, None, Markup(f"e<sup>{before} − max</sup>"), None, after),
            "rows": rows,
            "caption": f"{before} before, {after} after the softmax",
            "note": "",
            "is_named": False,
            "is_narrow": True,
        }

    def _rows(self) -> list[Context]:
        at = [(*self.row, n) for n in self.places]
        columns = [
            [str(Address(self.op.before, place)) for place in at],
            [self.op.raised(self.run, place) for place in at],
            [str(Address(self.op.out, place)) for place in at],
        ]
        before, after = ([float(self.run.values(address)) for address in columns[n]] for n in (0, 2))
        raised = self.e.products[1:][self.places].tolist()
        most = numbers.largest(before)
        texts = (column_text(before), column_text(raised), [numbers.percent(x) for x in after])
        linked = (map(self._link, *column) for column in zip(columns, texts, strict=True))
        return [
            row(
                (
                    why_names.place(self.run, self.axis, n),
                    cells[0],
                    charts.signed_bar(before[k], most, 40),
                    cells[1],
                    charts.share_bar(raised[k] / self.total, 48),
                    cells[2],
                ),
                "here" if n == self.chosen else "",
            )
            for k, (n, *cells) in enumerate(zip(self.places, *linked, strict=True))
        ]

    def _link(self, address: str, text: str) -> Markup:
        if address == self.e.address:
            return Markup("<b>") + text + Markup("</b>")
        return self.links.to(address, text, title=address)

    def _summary(self, name: str, raised: float, css: str) -> Context:
        share = raised / self.total if self.total else 0.0
        return row(
            (name, NO_BAR, numbers.value(raised, 3), charts.share_bar(share, 48), numbers.percent(share)), css, 2
        )
