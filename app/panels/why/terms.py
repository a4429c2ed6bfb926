"""The table of terms: what is multiplied, what it gives, and how the total grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup, escape

from app.panels.why import names as why_names
from app.panels.why.links import Links
from app.render import charts, formulas, numbers
from app.render.charts import Floats, Ints, Listed
from model.ops.softmax import Probabilities, Weights

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation
    from model.explain.terms import Factor, Term
    from model.ops.op import Op

PAGE = 10
NAMES = {"before": "weight before", "the start": "weight before", "m̂ / (√v̂ + ε)": "m̂ ÷ (√v̂ + ε)"}
NO_BAR = Markup('<span class="mini"></span>')  # keeps a column of bars in step where a phone leaves it out


@dataclass(frozen=True)
class Head:
    """A column's heading; `css` is "name" for the first column, "bar" for bars, "" for numbers."""

    text: str | Markup
    css: str = ""
    title: str = ""


@dataclass(frozen=True)
class Row:
    """Cells in the order of the headings, the first over `span` columns.

    `css` marks the row of the number itself, of the rest and of the total.
    """

    cells: tuple[Markup, ...]
    css: str = ""
    span: int = 1


@dataclass(frozen=True)
class Table:
    """A window of terms as a reader sees it.

    `note` is a name that all of them share; `named` tables need room for names; `narrow` ones leave their bars out on a
    phone.
    """

    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    caption: str
    note: str = ""
    named: bool = False
    narrow: bool = False


def term_order(e: Explanation) -> Ints:
    """Indices of all terms in the order asked for: a quotient's numerator stays first."""
    if e.order == "index":
        return np.arange(e.n_terms)
    size = np.abs(e.products)
    if e.combine == "quotient":
        size = size.copy()
        size[0] = np.inf
    return np.argsort(-size, kind="stable")


def listed(e: Explanation) -> Listed:
    return Listed(e.offset, e.offset + len(e.terms))


def terms_table(run: Run, e: Explanation, op: Op | None, links: Links, order: Ints) -> Table:
    """The listed terms of any explanation that has some."""
    if isinstance(op, (Weights, Probabilities)):
        return SoftmaxTable(run, e, op, links).table()
    return SumTable(run, e, links, order).table()


def column_text(values: Sequence[float], figures: int = 4) -> list[str]:
    """Numbers of one column with the same decimals, so that their points stand under each other."""
    most = numbers.largest(values)
    if most == 0 or not 1e-5 <= most < 1e6:
        return [numbers.value(x) for x in values]
    figures -= most < 1e-3
    decimals = min(max(figures - 1 - int(np.floor(np.log10(most))), 0), 7)
    whole = all(float(x).is_integer() for x in values if np.isfinite(x))
    return [_aligned(x, 0 if whole else decimals) for x in values]


def _aligned(x: float, decimals: int) -> str:
    """Fixed decimals, but powers of ten for a small number that they would show as nothing."""
    vanishes = x != 0 and abs(x) < 0.5 * 10.0**-decimals
    return numbers.scientific(x, 1) if vanishes else numbers.fixed(x, decimals)


# -- sums, and whatever else is made of products


class SumTable:
    """Columns: the terms' names, their factors, the product with its bar, and for a sum the running total."""

    def __init__(self, run: Run, e: Explanation, links: Links, order: Ints) -> None:
        self.run, self.e, self.links = run, e, links
        self.terms = e.terms
        self.factors = {term.index: unsigned(term) for term in e.terms}
        self.width = max(map(len, self.factors.values()), default=0)
        self.bare = self.width <= 1  # a product of one factor is that factor
        self.shows_totals = e.combine == "sum" and e.n_terms > 2 and self._has_totals()
        self.bar_width = 64 if self.width < 3 else 44
        self.shows_bars = (
            e.n_terms > 1 and self._has_room() and (e.combine != "quotient" or any(term.place for term in e.terms))
        )
        kinds = {tuple(axis for axis, _ in term.place) for term in e.terms if term.place}
        self.axes = kinds.pop() if len(kinds) == 1 else ()  # what all terms run over
        labels = {term.label for term in e.terms if term.place}
        self.through = labels.pop() if len(labels) == 1 else ""  # a name that all of them share
        self.squared = self.width > 1 and all(is_square(factors) for factors in self.factors.values())
        columns = [n for n in range(self.width) if not self._common_constant(n) and not (self.squared and n == 1)]
        self.columns = [] if self.bare else columns
        running = np.cumsum(e.products[order]) if self.shows_totals else np.empty(0)
        self.running: Floats = running[e.offset : e.offset + len(e.terms)]
        self.figures = 9 if e.op == "parameter update" else 4  # a step moves a weight in its last figures
        self.others = e.n_terms - len(e.terms)
        self.rest = self._rest()
        shown = [term.product for term in e.terms]
        self.bar = numbers.largest(shown)
        if self.others and abs(self.rest) <= 8 * self.bar:
            self.bar = max(self.bar, abs(self.rest))

    def _has_room(self) -> bool:
        """Bars say nothing beside a weight and its tiny steps, and tiny slopes need their room for figures."""
        if self.e.op in ("parameter update", "running average"):
            return False
        return self.e.op != "gradient" or (self.e.n_terms < 4 and self.width < 3) or self._is_plain()

    def _is_plain(self) -> bool:
        """Terms of one kind, in figures that are not long."""
        most = numbers.largest([term.product for term in self.terms])
        return most >= 1e-3 and len({term.label for term in self.terms}) == 1

    def _has_totals(self) -> bool:
        """Where the table has room for the running total, or the reader asks for the terms in order."""
        if self.e.op == "parameter update":
            return any(term.label.startswith("step") for term in self.terms)
        return self.e.op != "gradient" or self.e.order == "index" or self._is_plain()

    def _rest(self) -> float:
        """The sum of the terms not listed; of a quotient, of the denominator's."""
        e = self.e
        if e.combine != "quotient":
            return e.rest
        return float(e.products[1:].sum()) - sum(term.product for term in e.terms if term.index > 0)

    def _common_constant(self, n: int) -> str:
        """The constant that every listed term has as its n-th factor, if there is one: the heading can say it."""
        names = {factors[n].constant if n < len(factors) else None for factors in self.factors.values()}
        return (names.pop() or "") if len(names) == 1 else ""

    def table(self) -> Table:
        heads = [Head(self._first_head(), "name"), *map(self._factor_head, self.columns)]
        heads += [Head("", "bar")] if self.shows_bars else []
        heads += [Head(self._product_head())]
        heads += [Head("running total")] if self.shows_totals else []
        rows = self._rows()
        if self.others:
            rows.append(self._others_row())
        if self.e.n_terms > (2 if self.e.combine == "quotient" else 1) and self.e.combine in ("sum", "quotient"):
            rows.append(self._total_row())
        caption = f"{numbers.count(len(self.terms))} of {numbers.count(self.e.n_terms)} terms"
        note = f"Each {self._first_head()} {in_words(self.through)}" if self.through else ""
        named = any(len(term.label) > 12 for term in self.terms) and not self.through
        return Table(tuple(heads), tuple(rows), caption, note, named, narrow=len(heads) > 5)

    # headings

    def _first_head(self) -> str:
        return ", ".join(why_names.AXES[axis] for axis in self.axes) if self.axes else "term"

    def _factor_head(self, n: int) -> Head:
        """What a column's factors are called: each name once, of many kinds none."""
        inside = [factors[n] for factors in self.factors.values() if n < len(factors) and len(factors) > 1]
        names = list(dict.fromkeys(why_names.column(self.run, f.address) if f.address else "constant" for f in inside))
        if self.e.op == "parameter update" and len(names) > 1:
            return Head("factor")
        if len(names) > 1 and all(name.startswith("slope of ") for name in names):
            return Head("slope there")
        if chosen := {f.constant for f in inside if is_chosen(f.constant or "")}:
            return Head("share" if self.e.op == "running average" else "−η" if len(chosen) == 1 else "rate")
        name = ", ".join(names) if len(names) < (2 if self.e.op == "gradient" else 4) else "factor"
        return Head(f"({name})²" if self.squared and n == 0 else name)

    def _product_head(self) -> str | Markup:
        if not self.bare:
            constants = [c for n in range(self.width) if (c := self._common_constant(n))]
            shown = Markup(", ").join(formulas.mathml(rf"\times {c}") for c in constants)
            return Markup("product, {}").format(shown) if constants else "product"
        if self.e.combine == "quotient":
            return "value"
        first = self.terms[0].factors[0].address if self.terms else None
        alike = first and all(term.place for term in self.terms)
        return why_names.column(self.run, first) if first and alike else "value"

    # rows

    def _rows(self) -> list[Row]:
        cells = [[self._name(term) for term in self.terms]]
        cells += [self._factor_column(n) for n in self.columns]
        if self.shows_bars:
            cells.append([charts.signed_bar(term.product, self.bar, self.bar_width) for term in self.terms])
        products = column_text([term.product for term in self.terms])
        cells.append([self._product(term, shown) for term, shown in zip(self.terms, products, strict=True)])
        if self.shows_totals:
            totals = column_text([*self.running.tolist(), self.e.total], self.figures)
            cells.append([self._running(n, shown) for n, shown in enumerate(totals[:-1])])
        return [Row(row) for row in zip(*cells, strict=True)]

    def _name(self, term: Term) -> Markup:
        if not term.place:
            name = escape(self._label(term)) or self._written(term)
            factors = self.factors[term.index]
            if len(factors) == len(term.factors):
                return name
            source = factors[0].address if len(factors) == 1 else None
            return Markup("− ") + (self.links.to(source, name, css="", title=source) if source else name)
        words = [Markup("{} ").format(why_names.AXES[axis]) if not self.axes else Markup("") for axis, _ in term.place]
        places = [why_names.place(self.run, axis, n) for axis, n in term.place]
        name = Markup(", ").join(word + place for word, place in zip(words, places, strict=True))
        return Markup("{}: {}").format(in_words(term.label), name) if term.label and not self.through else name

    def _label(self, term: Term) -> str:
        if self.e.site == "logits" and self.e.op == "gradient":
            return term.label.partition(": ")[2]
        return NAMES.get(term.label, in_words(term.label))

    def _written(self, term: Term) -> Markup:
        """A term without a name: its factors' addresses, or the constant it is."""
        addresses = [why_names.short(self.run, f.address, self.e.address) for f in term.factors if f.address]
        return Markup("<code>{}</code>").format(" × ".join(addresses)) if addresses else Markup("constant")

    def _factor_column(self, n: int) -> list[Markup]:
        rows = [self.factors[term.index] for term in self.terms]
        found = [factors[n] if len(factors) > 1 and n < len(factors) else None for factors in rows]
        shown = column_text([factor.value if factor else 0.0 for factor in found])
        return [self._factor(f, text) if f else Markup("") for f, text in zip(found, shown, strict=True)]

    def _factor(self, factor: Factor, shown: str) -> Markup:
        if factor.address is None:
            chosen = is_chosen(factor.constant or "")
            return escape(numbers.full(factor.value, 4)) if chosen else formulas.mathml(factor.constant or "")
        return self.links.to(factor.address, shown, title=factor.address)

    def _product(self, term: Term, shown: str) -> Markup:
        address = product_address(term)
        if self.e.op == "lookup" or address is None:
            return escape(shown)
        return self.links.to(address, shown, title=address if len(self.factors[term.index]) == 1 else "")

    def _running(self, n: int, shown: str) -> Markup:
        """In index order a running total is a number with an address of its own."""
        if self.e.op == "parameter update":
            return self._after_step(n, shown)
        if self.e.order != "index" or self.e.site == "calc" or self.e.op == "running average":
            return escape(shown)
        address = f"calc(partial({self.e.address},0:{self.e.offset + n + 1}))"
        return self.links.to(address, shown)

    def _after_step(self, n: int, shown: str) -> Markup:
        """Where each term is a step, the running total is the weight after it."""
        term = self.terms[n]
        if not (term.index == 0 or term.label.startswith("step")) or self.e.n_terms - 1 == term.index:
            return escape(shown)
        start = self.e.address.rpartition("].")[0] + "]"
        if term.index == 0:
            return self.links.to(self.terms[n].factors[0].address or start, shown)
        return self.links.to(f"{start}.step({term.index})", shown)

    # what is not listed, and all together

    def _summary(self, name: str, product: float | None, total: float | None, css: str) -> Row:
        """A row under the terms: a name, nothing for the factors, and the sums that it has."""
        listed = [term.product for term in self.terms]
        cells = [escape(name)]
        if self.shows_bars:
            fits = css == "rest" and product is not None and abs(product) <= self.bar
            cells.append(charts.signed_bar(product or 0.0, self.bar, self.bar_width) if fits else NO_BAR)
        sums = [product, total] if self.shows_totals else [product if product is not None else total]
        figures = 4 if total is None else self.figures
        cells += [Markup("") if x is None else escape(column_text([x, *listed], figures)[0]) for x in sums]
        return Row(tuple(cells), css, span=1 + len(self.columns))

    def _others_row(self) -> Row:
        before = f", {numbers.count(self.e.offset)} of them before these" if self.e.offset else ""
        return self._summary(f"the other {numbers.count(self.others)} terms{before}", self.rest, None, "rest")

    def _total_row(self) -> Row:
        if self.e.combine == "quotient":
            return self._summary("sum below the line", float(self.e.products[1:].sum()), None, "total")
        return self._summary(f"all {numbers.count(self.e.n_terms)} terms", None, self.e.total, "total")


def in_words(label: str) -> str:
    """“through qk” with the reader's name in words."""
    front, _, site = label.partition("through ")
    return f"through {why_names.READERS[site]}" if not front and site in why_names.READERS else label


def is_chosen(constant: str) -> bool:
    """A constant with a letter for what the reader or the optimizer chose: its value says more than its name."""
    return r"\eta" in constant or r"\beta" in constant


def unsigned(term: Term) -> list[Factor]:
    """A term's factors without a constant −1: the sign of its product says it."""
    return [factor for factor in term.factors if factor.constant != "-1"] or list(term.factors)


def is_square(factors: Sequence[Factor]) -> bool:
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


# -- softmax: before, in between and after in one row


class SoftmaxTable:
    """Rows of a softmax: the number before (score, logit), its exponential, and its share of the whole row after.

    The number itself comes first, in the accent; then the denominators listed.
    """

    def __init__(self, run: Run, e: Explanation, op: Weights | Probabilities, links: Links) -> None:
        self.run, self.e, self.links = run, e, links
        self.over_vocabulary = isinstance(op, Probabilities)
        *self.row, self.own = _place(e.address)
        self.site = e.site.rpartition(".")[0]
        self.axis = "d_vocab" if self.over_vocabulary else "key"
        self.total = float(e.products[1:].sum())
        listed = [term.place[0][1] for term in e.terms if term.place]
        self.places = listed if self.own in listed else [self.own, *listed]
        self.exps = e.products[1:][self.places]

    def address(self, which: str, n: int) -> str:
        """The address of one number in the row: before, exp or after."""
        index = ",".join(map(str, (*self.row, n)))
        if not self.over_vocabulary:
            names = {"before": "scores", "exp": "exp", "after": "pattern"}
            return f"{self.site}.{names[which]}[{index}]"
        if which == "exp":
            t = self.row[0]
            return f"calc(exp(logits[{index}]-logits[{t},{self.run.largest_logit(t)}]))"
        return f"{'logits' if which == 'before' else 'probs'}[{index}]"

    def table(self) -> Table:
        before, after = ("logit", "probability") if self.over_vocabulary else ("score", "weight")
        heads = (
            Head(why_names.AXES[self.axis], "name"),
            Head(before),
            Head("", "bar"),
            Head(Markup(f"e<sup>{before} − max</sup>")),
            Head("", "bar"),
            Head(after),
        )
        rows = self._rows()
        others = self.e.n_terms - 1 - len(self.places)
        if others:
            rows.append(self._others(others))
        all_of_them = f"all {numbers.count(self.e.n_terms - 1)}"
        rows.append(self._summary(all_of_them, self.total, "total"))
        return Table(heads, tuple(rows), f"{before} before, {after} after the softmax", narrow=True)

    def _rows(self) -> list[Row]:
        afters = ["before", "exp", "after"]
        values = {which: [self._value(which, n) for n in self.places] for which in afters}
        shown = {which: column_text(values[which]) for which in ("before", "exp")}
        most = numbers.largest(values["before"])
        rows = []
        for k, n in enumerate(self.places):
            share = float(self.exps[k]) / self.total
            cells = (
                why_names.place(self.run, self.axis, n),
                self._link("before", n, shown["before"][k]),
                charts.signed_bar(values["before"][k], most, 40),
                self._link("exp", n, shown["exp"][k]),
                charts.share_bar(share, 48),
                self._link("after", n, numbers.percent(values["after"][k])),
            )
            rows.append(Row(cells, "here" if n == self.own else ""))
        return rows

    def _value(self, which: str, n: int) -> float:
        if which == "exp":
            return float(self.e.products[1 + n])
        return float(self.run.values(self.address(which, n)))

    def _link(self, which: str, n: int, shown: str) -> Markup:
        address = self.address(which, n)
        if address == self.e.address:
            return Markup("<b>") + shown + Markup("</b>")
        return self.links.to(address, shown, title=address)

    def _others(self, others: int) -> Row:
        rest = self.total - float(self.exps.sum())  # the number itself stands on top, so it is none of the others
        return self._summary(f"the other {numbers.count(others)}", max(rest, 0.0), "rest")

    def _summary(self, name: str, exp: float, css: str) -> Row:
        share = exp / self.total if self.total else 0.0
        cells = (
            escape(name),
            NO_BAR,
            escape(numbers.value(exp, 3)),
            charts.share_bar(share, 48),
            escape(numbers.percent(share)),
        )
        return Row(cells, css, span=2)


def _place(address: str) -> list[int]:
    """The indices of a single number's address."""
    return [int(i) for i in address[address.index("[") + 1 : -1].split(",")]
