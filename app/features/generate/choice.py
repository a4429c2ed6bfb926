"""One choice laid open: the ranking before and after each cut, the shares that were removed, the draw on its line.

`choice_view` needs no page: give it a choice, the model, and `Links` in the run whose logits made the choice, and the
fragments `generate/_choice*.html` show it, in a lesson as on the page of generation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from app.features.generate.choice_charts import Stretch, number_line, running_chart
from app.render import numbers
from app.render.links import Links
from app.render.tokens import token_html
from model import LanguageModel
from model.runtime.choice_address import ChoiceAddress
from model.runtime.sample import Candidate, Choice, Settings

ROWS = 12
SMALLEST = 0.004  # stretches of the line under this share are drawn as one
COLUMNS = ("prob", "tempered", "after_k", "odds")


@dataclass(frozen=True)
class Stage:
    """One column: `number` links to how it is made, `width` is its bar in percent; "" and 0 for what was cut."""

    number: Markup
    width: float


@dataclass(frozen=True)
class Row:
    """One token of the ranking. `cut` is "" for one that stays, else what cut it; `crosses` marks the last that top-p
    keeps, `drawn` the draw's choice and `taken` the token that was appended. `stretch` is its part of the line.
    """

    rank: int
    token: int
    shown: Markup
    name: str
    logit: Markup
    stages: tuple[Stage, ...]
    running: Markup | None
    stretch: str
    cut: str
    crosses: bool
    drawn: bool
    taken: bool


@dataclass(frozen=True)
class Others:
    """The tokens that are not listed, before or after those that are: how many, and their share at each stage."""

    n: int
    shares: tuple[Markup, ...]


@dataclass(frozen=True)
class ChoiceView:
    """All that the fragments show. Numbers in Markup are links to their explanations; ranks count from 0.

    `token` is what was appended (`taken` where that was not the draw's choice `drawn_token`).
    """

    settings: Settings
    position: int
    n_vocab: int
    token: Markup
    drawn_token: Markup
    rank: int
    taken: bool
    before: Markup
    tempered: Markup
    odds: Markup
    is_kept: bool
    largest: Markup
    largest_before: Markup
    largest_after: Markup
    cuts_k: bool
    kept_by_k: int
    removed_by_k: Markup
    left_by_k: str
    cuts_p: bool
    kept: int
    crossing: Markup
    crossed: Markup
    removed_by_p: Markup
    left_by_p: str
    kept_mass: Markup
    drawn: float
    low: Markup
    high: Markup
    rows: tuple[Row, ...]
    above: Others | None
    below: Others | None
    apart: Row | None
    first: int
    line: Markup
    chart: Markup


def choice_view(
    model: LanguageModel, choice: Choice, cells: Links, *, token: int | None = None, first: int = 0, rows: int = ROWS
) -> ChoiceView:
    """`token` is what was appended where that is not the draw's choice; `first` the first rank listed."""
    return Builder(model, choice, cells, choice.token if token is None else token).view(first, rows)


class Builder:
    """Makes the parts of a view."""

    def __init__(self, model: LanguageModel, choice: Choice, cells: Links, token: int) -> None:
        self.model, self.choice, self.cells, self.token = model, choice, cells, token
        self.at = ChoiceAddress(choice)

    def view(self, first: int, n_rows: int) -> ChoiceView:
        c, at = self.choice, self.at
        first = min(first, max(len(c.order) - 1, 0))
        listed = c.candidates(first, n_rows)
        full = max(*(max(r.prob, r.tempered, r.after_k, r.odds) for r in c.candidates(0, 1)), *(
            max(r.prob, r.tempered, r.after_k, r.odds) for r in listed), 1e-300)  # fmt: skip
        rows = tuple(self.row(row, full) for row in listed)
        rank = c.rank_of(self.token)
        stop = first + len(listed)
        apart = None if first <= rank < stop else self.row(c.candidates(rank, 1)[0], full)
        top, last = int(c.order[0]), int(c.order[c.kept - 1])
        low, high = at.interval(c.rank)
        return ChoiceView(
            settings=c.settings,
            position=c.position,
            n_vocab=len(c.order),
            token=self.shown(self.token),
            drawn_token=self.shown(c.token),
            rank=rank,
            taken=self.token != c.token,
            before=self.percent(at.prob(self.token), float(c.probs[self.token])),
            tempered=self.percent(at.tempered(self.token), float(c.tempered[self.token])),
            odds=self.percent(at.odds(self.token), float(c.odds[self.token])),
            is_kept=rank < c.kept,
            largest=self.shown(top),
            largest_before=self.percent(at.prob(top), float(c.probs[top])),
            largest_after=self.percent(at.tempered(top), float(c.tempered[top])),
            cuts_k=c.kept_by_k < len(c.order),
            kept_by_k=c.kept_by_k,
            removed_by_k=self.percent(at.removed_by_k, c.removed_by_k),
            left_by_k=numbers.fixed(1 - c.removed_by_k, 4),
            cuts_p=c.kept < c.kept_by_k,
            kept=c.kept,
            crossing=self.shown(last),
            crossed=self.decimal(at.running(c.kept - 1), float(c.running[c.kept - 1])),
            removed_by_p=self.percent(at.removed_by_p, c.removed_by_p),
            left_by_p=numbers.fixed(1 - c.removed_by_p, 4),
            kept_mass=self.percent(at.kept_mass, c.kept_mass),
            drawn=c.drawn,
            low=self.decimal(low, c.interval[0]),
            high=self.decimal(high, c.interval[1]),
            rows=rows,
            above=self.others(0, first),
            below=self.others(stop, len(c.order)),
            apart=apart,
            first=first,
            line=number_line(self.stretches(), None if c.settings.greedy else c.drawn),
            chart=running_chart(c),
        )

    # -- rows

    def row(self, r: Candidate, full: float) -> Row:
        c, at = self.choice, self.at
        cut = "" if r.rank < c.kept else "top-k" if r.rank >= c.kept_by_k else "top-p"
        values = (r.prob, r.tempered, r.after_k, r.odds)
        written = (at.prob, at.tempered, at.after_k, at.odds)
        is_left = (True, True, r.rank < c.kept_by_k, not cut)
        return Row(
            rank=r.rank,
            token=r.token,
            shown=self.shown(r.token),
            name=self.name(r.token),
            logit=self.cells.number(at.logit(r.token), numbers.fixed(r.logit, 2)),
            stages=tuple(
                Stage(self.percent(address(r.token), x), round(100 * x / full, 2)) if left else Stage(Markup(""), 0)
                for address, x, left in zip(written, values, is_left, strict=True)
            ),
            running=self.decimal(at.running(r.rank), r.running) if r.rank < c.kept_by_k else None,
            stretch="" if cut else f"{numbers.fixed(r.low, 4)} to {numbers.fixed(r.high, 4)}",
            cut=cut,
            crosses=c.kept < c.kept_by_k and r.rank == c.kept - 1,
            drawn=r.token == c.token,
            taken=r.token == self.token,
        )

    def others(self, start: int, stop: int) -> Others | None:
        """The ranks from `start` to `stop`, which are the first of all or the last of all."""
        if stop <= start:
            return None
        return Others(stop - start, tuple(self.share_of(column, start, stop) for column in COLUMNS))

    def share_of(self, column: str, start: int, stop: int) -> Markup:
        """What they have together at one stage, as a link to that sum."""
        c = self.choice
        counted = {"prob": len(c.order), "tempered": len(c.order), "after_k": c.kept_by_k, "odds": c.kept}[column]
        temperature = 1.0 if column == "prob" else c.settings.temperature
        share = float(getattr(c, "probs" if column == "prob" else column)[c.order[start:stop]].sum())
        edge = start or stop  # above: the first `stop`; below: all but the first `start`
        whole = Settings(temperature, counted, 1, c.settings.seed)
        inner = ChoiceAddress(replace(c, settings=whole)).running(edge - 1).removeprefix("calc(").removesuffix(")")
        return self.percent(f"calc(1-{inner})" if start else f"calc({inner})", share)

    # -- the line

    def stretches(self) -> list[Stretch]:
        """Each kept token's stretch; those too small to see are one."""
        c = self.choice
        found, low = [], 0.0
        for rank, high in enumerate(c.ends.tolist()):
            if high - low < SMALLEST and rank != c.rank:
                break
            token = int(c.order[rank])
            found.append(Stretch(low, high, self.name(token), rank == c.rank))
            low = high
        rest = c.kept - len(found)
        if rest and c.rank >= len(found):
            own = Stretch(*c.interval, self.name(c.token), True)
            if c.rank > len(found):
                found.append(Stretch(low, own.low, f"{c.rank - len(found)} more", False))
            found.append(own)
            low, rest = own.high, c.kept - c.rank - 1
        if rest and low < 1:
            found.append(Stretch(low, 1.0, f"{numbers.count(rest)} more", False))
        return found

    # -- how things are written

    def shown(self, token: int) -> Markup:
        return token_html(self.model.tokenizer, token)

    def name(self, token: int) -> str:
        return self.model.tokenizer.show(token)

    def percent(self, at: str, p: float) -> Markup:
        return self.cells.number(at, percent(p))

    def decimal(self, at: str, x: float) -> Markup:
        return self.cells.number(at, numbers.fixed(x, 4), css="num live")


def percent(p: float) -> str:
    """A probability in percent; nothing at all as 0 %, what is certain as 100 %."""
    return "0 %" if p == 0 else "100 %" if p == 1 else numbers.percent(p)


def brief_percent(p: float) -> str:
    """In as few figures as fit under a token: 61 %, 4.2 %, <0.1 %."""
    x = 100 * p
    if x < 0.05:
        return "<0.1 %" if x else "0 %"
    return f"{numbers.fixed(x, 0 if x >= 9.95 else 1)} %"
