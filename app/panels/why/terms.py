"""The terms of an explanation: what is multiplied, what it gives, and how the total grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from app.panels.why import names as why_names
from app.panels.why.links import Links
from app.panels.why.softmax import SoftmaxTable
from app.panels.why.table import NO_BAR, row
from app.render import charts, formulas, numbers
from app.render.charts import Floats, Ints
from app.render.figures import column_text
from app.render.templating import Context
from model.arch.base import AXES
from model.ops.softmax import Softmax

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation
    from model.explain.terms import Factor, Term
    from model.ops.base import Place
    from model.ops.op import Op

PAGE = 10
NAMES = {"before": "weight before", "the start": "weight before", "m̂ / (√v̂ + ε)": "m̂ ÷ (√v̂ + ε)"}


def term_order(e: Explanation) -> Ints:
    """Indices of all terms in the order asked for: a quotient's numerator stays first."""
    if e.order == "index":
        return np.arange(e.n_terms)
    size = np.abs(e.products)
    if e.combine == "quotient":
        size[0] = np.inf
    return np.argsort(-size, kind="stable")


def terms_table(run: Run, e: Explanation, op: Op | None, at: Place, links: Links, order: Ints) -> Context:
    """The listed terms of any explanation that has some."""
    if isinstance(op, Softmax):
        return SoftmaxTable(run, e, op, at, links).table()
    return TermTable(run, e, links, order).table()


class TermTable:
    """Columns: the terms' names, their factors, the product with its bar, and for a sum the running total."""

    def __init__(self, run: Run, e: Explanation, links: Links, order: Ints) -> None:
        self.run, self.e, self.links, self.terms = run, e, links, e.terms
        self.is_gradient, self.is_update = e.kind == "gradient", e.kind == "update"
        self.is_quotient = e.combine == "quotient"
        consumers = run.model.graph.gradient_consumers(e.site) if self.is_gradient else []
        self.readers = {node.short: node.as_reader for node in consumers}
        self.factors = {term.index: unsigned(term) for term in e.terms}
        self.width = max(map(len, self.factors.values()), default=0)
        self.bare = self.width <= 1  # a product of one factor is that factor
        kinds = {tuple(axis for axis, _ in term.place) for term in e.terms if term.place}
        self.axes = kinds.pop() if len(kinds) == 1 else ()  # what all terms run over
        labels = {term.label for term in e.terms if term.place}
        self.through = self._in_words(labels.pop()) if len(labels) == 1 else ""  # a name that all of them share
        self.squared = self.width > 1 and all(is_square(factors) for factors in self.factors.values())
        self.constants = [self._common_constant(n) for n in range(self.width)]
        varied = [n for n, constant in enumerate(self.constants) if not constant and not (self.squared and n == 1)]
        self.columns = [] if self.bare else varied
        self.shows_totals = e.combine == "sum" and e.n_terms > 2 and self._has_totals()
        self.shows_bars = e.n_terms > 1 and self._has_bars()
        running = np.cumsum(e.products[order]) if self.shows_totals else np.empty(0)
        self.running: Floats = running[e.offset : e.offset + len(e.terms)]
        self.figures = 9 if self.is_update else 4  # a step moves a weight in its last figures
        self.others = e.n_terms - len(e.terms)
        self.rest = self._rest()
        self.bar = numbers.largest([term.product for term in e.terms])
        if self.others and abs(self.rest) <= 8 * self.bar:
            self.bar = max(self.bar, abs(self.rest))

    def _has_bars(self) -> bool:
        """Bars say nothing beside a weight and its tiny steps, and tiny slopes need their room for figures."""
        if self.e.kind in ("update", "average") or (self.is_quotient and not any(term.place for term in self.terms)):
            return False
        return not self.is_gradient or (self.e.n_terms < 4 and self.width < 3) or self._is_plain()

    def _is_plain(self) -> bool:
        """Terms of one kind, in figures that are not long."""
        most = numbers.largest([term.product for term in self.terms])
        return most >= 1e-3 and len({term.label for term in self.terms}) == 1

    def _has_totals(self) -> bool:
        """Where the table has room for the running total, or the reader asks for the terms in order."""
        if self.is_update:
            return any(term.label.startswith("step") for term in self.terms)
        return not self.is_gradient or self.e.order == "index" or self._is_plain()

    def _rest(self) -> float:
        """The sum of the terms not listed; of a quotient, of the denominator's."""
        if not self.is_quotient:
            return self.e.rest
        return float(self.e.products[1:].sum()) - sum(term.product for term in self.terms if term.index > 0)

    def _common_constant(self, n: int) -> str:
        """The constant that every listed term has as its n-th factor, if there is one: the heading can say it."""
        names = {factors[n].constant if n < len(factors) else None for factors in self.factors.values()}
        return (names.pop() or "") if len(names) == 1 else ""

    def _in_words(self, label: str) -> str:
        """“through qk” with the reader's name in words."""
        front, _, site = label.partition("through ")
        return f"through {self.readers[site]}" if not front and site in self.readers else label

    def table(self) -> Context:
        e, first = self.e, self._first_head()
        heads: list[str | None] = [first, *map(self._factor_head, self.columns)]
        heads += [None] if self.shows_bars else []
        heads += [self._product_head()]
        heads += ["running total"] if self.shows_totals else []
        rows = self._rows()
        if self.others:
            before = f", {numbers.count(e.offset)} of them before these" if e.offset else ""
            rows.append(self._summary(f"the other {numbers.count(self.others)} terms{before}", self.rest, "rest"))
        if e.n_terms > 1 + self.is_quotient and e.combine in ("sum", "quotient"):
            rows.append(self._total_row())
        return {
            "heads": heads,
            "rows": rows,
            "caption": f"{numbers.count(len(self.terms))} of {numbers.count(e.n_terms)} terms",
            "note": f"Each {first} {self.through}" if self.through else "",  # a name that all of them share
            "is_named": any(len(term.label) > 12 for term in self.terms) and not self.through,  # it needs the room
            "is_narrow": len(heads) > 5,  # leaves its bars out on a phone
        }

    # headings

    def _first_head(self) -> str:
        return ", ".join(AXES[axis].word for axis in self.axes) if self.axes else "term"

    def _factor_head(self, n: int) -> str:
        """What a column's factors are called: each name once, of many kinds none."""
        inside = [factors[n] for factors in self.factors.values() if n < len(factors) and len(factors) > 1]
        names = list(dict.fromkeys(why_names.column(self.run, f.address) if f.address else "constant" for f in inside))
        if self.is_update and len(names) > 1:
            return "factor"
        if len(names) > 1 and all(name.startswith("slope of ") for name in names):
            return "slope there"
        if chosen := {f.constant for f in inside if is_chosen(f.constant or "")}:
            return "share" if self.e.kind == "average" else "−η" if len(chosen) == 1 else "rate"
        name = ", ".join(names) if len(names) < (2 if self.is_gradient else 4) else "factor"
        return f"({name})²" if self.squared and n == 0 else name

    def _product_head(self) -> str:
        if not self.bare:
            shown = Markup(", ").join(formulas.mathml(rf"\times {c}") for c in self.constants if c)
            return Markup("product, {}").format(shown) if shown else "product"
        first = self.terms[0].factors[0].address if self.terms and not self.is_quotient else None
        alike = first and all(term.place for term in self.terms)
        return why_names.column(self.run, first) if first and alike else "value"

    # rows

    def _rows(self) -> list[Context]:
        products = [term.product for term in self.terms]
        cells: list[list[str]] = [[self._name(term) for term in self.terms]]
        cells += [self._factor_column(n) for n in self.columns]
        if self.shows_bars:
            cells.append([self._bar(product) for product in products])
        texts = column_text(products)
        cells.append([self._product(term, text) for term, text in zip(self.terms, texts, strict=True)])
        if self.shows_totals:
            totals = column_text([*self.running.tolist(), self.e.total], self.figures)
            cells.append([self._running(n, text) for n, text in enumerate(totals[:-1])])
        return [row(of_term) for of_term in zip(*cells, strict=True)]

    def _bar(self, x: float) -> Markup:
        return charts.signed_bar(x, self.bar, 64 if self.width < 3 else 44)

    def _name(self, term: Term) -> str:
        if not term.place:
            return self._label(term)
        words = ("" if self.axes else f"{AXES[axis].word} " for axis, _ in term.place)
        places = (why_names.place(self.run, axis, n) for axis, n in term.place)
        name = Markup(", ").join(Markup(word) + place for word, place in zip(words, places, strict=True))
        return Markup("{}: {}").format(self._in_words(term.label), name) if term.label and not self.through else name

    def _label(self, term: Term) -> str:
        """A term's own name, or what it is written as; with its sign where the factors shown leave it out."""
        said = term.label.partition(": ")[2] if self.e.is_p_minus_y else self._in_words(term.label)
        name = NAMES.get(said, said) or self._written(term)
        factors = self.factors[term.index]
        if len(factors) == len(term.factors):
            return name
        source = factors[0].address if len(factors) == 1 else None
        return Markup("− ") + (self.links.to(source, name, css="", title=source) if source else name)

    def _written(self, term: Term) -> str:
        """A term without a name: its factors' addresses, or the constant it is."""
        addresses = [why_names.short(self.run, f.address, self.e.address) for f in term.factors if f.address]
        return Markup("<code>{}</code>").format(" × ".join(addresses)) if addresses else "constant"

    def _factor_column(self, n: int) -> list[str]:
        rows = [self.factors[term.index] for term in self.terms]
        found = [factors[n] if len(factors) > 1 and n < len(factors) else None for factors in rows]
        texts = column_text([factor.value if factor else 0.0 for factor in found])
        return [self._factor(f, text) if f else "" for f, text in zip(found, texts, strict=True)]

    def _factor(self, factor: Factor, text: str) -> str:
        if factor.address is None:
            constant = factor.constant or ""
            return numbers.full(factor.value, 4) if is_chosen(constant) else formulas.mathml(constant)
        return self.links.to(factor.address, text, title=factor.address)

    def _product(self, term: Term, text: str) -> str:
        address = product_address(term)
        if term.how or address is None:
            return text
        return self.links.to(address, text, title=address if len(self.factors[term.index]) == 1 else "")

    def _running(self, n: int, text: str) -> str:
        """In index order a running total is a number with an address of its own."""
        if self.is_update:
            return self._after_step(self.terms[n], text)
        if self.e.order != "index" or self.e.kind in ("arithmetic", "average"):
            return text
        return self.links.to(f"calc(partial({self.e.address},0:{self.e.offset + n + 1}))", text)

    def _after_step(self, term: Term, text: str) -> str:
        """Where each term is a step, the running total is the weight after it."""
        if not (term.index == 0 or term.label.startswith("step")) or self.e.n_terms - 1 == term.index:
            return text
        start = self.e.address.rpartition("].")[0] + "]"
        at = term.factors[0].address or start if term.index == 0 else f"{start}.step({term.index})"
        return self.links.to(at, text)

    # what is not listed, and all together

    def _total_row(self) -> Context:
        if self.is_quotient:
            return self._summary("sum below the line", float(self.e.products[1:].sum()), "total")
        return self._summary(f"all {numbers.count(self.e.n_terms)} terms", self.e.total, "total", is_total=True)

    def _summary(self, name: str, x: float, css: str, *, is_total: bool = False) -> Context:
        """A row under the terms: a name, nothing for the factors, and a sum, which `is_total` if it is of all."""
        cells: list[str] = [name]
        if self.shows_bars:
            cells.append(self._bar(x) if css == "rest" and abs(x) <= self.bar else NO_BAR)
        listed = [term.product for term in self.terms]
        text = column_text([x, *listed], self.figures if is_total else 4)[0]
        cells += [text] if not self.shows_totals else ["", text] if is_total else [text, ""]
        return row(cells, css, span=1 + len(self.columns))


def is_chosen(constant: str) -> bool:
    """A constant with a letter for what the reader or the optimizer chose: its value says more than its name."""
    return r"\eta" in constant or r"\beta" in constant


def unsigned(term: Term) -> list[Factor]:
    """A term's factors without a constant −1: the sign of its product says it."""
    return [factor for factor in term.factors if factor.constant != "-1"] or list(term.factors)


def is_square(factors: list[Factor]) -> bool:
    """Whether the first factor stands there twice."""
    return len(factors) > 1 and factors[0].address is not None and factors[0].address == factors[1].address


def product_address(term: Term) -> str | None:
    """A term's product as an address: its one factor's, or the factors multiplied in a calc(…)."""
    if len(term.factors) == 1:
        return term.factors[0].address
    factors = unsigned(term)
    if len(factors) == 1 and factors[0].address is not None:
        return f"calc(-{_operand(factors[0])})"
    if all(factor.address is None for factor in term.factors):
        return None
    return f"calc({'*'.join(map(_operand, term.factors))})"


def _operand(factor: Factor) -> str:
    if factor.address is None:
        return f"{factor.value!r}" if factor.value >= 0 else f"({factor.value!r})"
    return factor.address.removeprefix("calc") if factor.address.startswith("calc(") else factor.address
