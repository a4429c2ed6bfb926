"""One choice laid open: the ranking before and after each cut, the shares that were removed, the draw on its line.

`choice_view` needs no page: give it a choice, the model, and `Links` in the run whose logits made the choice, and the
fragments `generate/_choice*.html` show it, in a lesson as on the page of generation.
"""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from app.features.generate.choice_charts import Stretch, number_line, running_chart
from app.render import numbers
from app.render.links import Links
from app.render.templating import Context
from app.render.tokens import token_html
from model import LanguageModel
from model.runtime.choice_address import ChoiceAddress
from model.runtime.sample import Candidate, Choice, Sampling

ROWS = 12
SMALLEST = 0.004  # stretches of the line under this share are drawn as one
COLUMNS = ("prob", "tempered", "after_k", "odds")
CUT: Context = {"number": "", "width": 0}


def choice_view(
    model: LanguageModel, choice: Choice, links: Links, *, token: int | None = None, first: int = 0, rows: int = ROWS
) -> Context:
    """`token` is what was appended where that is not the draw's choice; `first` the first rank listed.

    Numbers are links to their explanations; ranks count from 0.
    """
    return ShownChoice(model, choice, links, choice.token if token is None else token).view(first, rows)


class ShownChoice:
    """A choice, and how its tokens and numbers are written; `token` is what was appended."""

    def __init__(self, model: LanguageModel, choice: Choice, links: Links, token: int) -> None:
        self.model, self.choice, self.links, self.token = model, choice, links, token
        self.at = ChoiceAddress(choice)

    def view(self, first: int, n_rows: int) -> Context:
        c = self.choice
        first = min(first, max(len(c.order) - 1, 0))
        listed = c.candidates(first, n_rows)
        full = max(*(max(r.prob, r.tempered, r.after_k, r.odds) for r in (*c.candidates(0, 1), *listed)), 1e-300)
        rank, stop = c.rank_of(self.token), first + len(listed)
        return {
            "settings": c.settings,
            "position": c.position,
            "n_vocab": len(c.order),
            "token": self.shown(self.token),
            "drawn_token": self.shown(c.token),
            "taken": self.token != c.token,
            "is_kept": rank < c.kept,
            "drawn": c.drawn,
            "rows": [self.row(row, full) for row in listed],
            "above": self.others(0, first),
            "below": self.others(stop, len(c.order)),
            "apart": None if first <= rank < stop else self.row(c.candidates(rank, 1)[0], full),
            "first": first,
            "line": number_line(self.stretches(), None if c.settings.greedy else c.drawn),
            "chart": running_chart(c),
            **self.shares(),
            **self.cuts(),
        }

    def shares(self) -> Context:
        """What the appended token and the likeliest one had at each stage, and where the draw's stretch lies."""
        c, at, top = self.choice, self.at, int(self.choice.order[0])
        low, high = at.interval(c.rank)
        return {
            "before": self.percent(at.prob(self.token), float(c.probs[self.token])),
            "tempered": self.percent(at.tempered(self.token), float(c.tempered[self.token])),
            "odds": self.percent(at.odds(self.token), float(c.odds[self.token])),
            "largest": self.shown(top),
            "largest_before": self.percent(at.prob(top), float(c.probs[top])),
            "largest_after": self.percent(at.tempered(top), float(c.tempered[top])),
            "low": self.decimal(low, c.interval[0]),
            "high": self.decimal(high, c.interval[1]),
        }

    def cuts(self) -> Context:
        """What top-k and top-p removed, and what was left."""
        c, at = self.choice, self.at
        return {
            "cuts_k": c.kept_by_k < len(c.order),
            "kept_by_k": c.kept_by_k,
            "removed_by_k": self.percent(at.removed_by_k, c.removed_by_k),
            "left_by_k": numbers.fixed(1 - c.removed_by_k, 4),
            "cuts_p": c.kept < c.kept_by_k,
            "kept": c.kept,
            "crossing": self.shown(int(c.order[c.kept - 1])),
            "crossed": self.decimal(at.running(c.kept - 1), float(c.running[c.kept - 1])),
            "removed_by_p": self.percent(at.removed_by_p, c.removed_by_p),
            "left_by_p": numbers.fixed(1 - c.removed_by_p, 4),
            "kept_mass": self.percent(at.kept_mass, c.kept_mass),
        }

    # -- rows

    def row(self, r: Candidate, full: float) -> Context:
        """One token of the ranking. `cut` says what cut it, "" where nothing did; `stretch` is its part of the line."""
        c, at = self.choice, self.at
        cut = "" if r.rank < c.kept else "top-k" if r.rank >= c.kept_by_k else "top-p"
        return {
            "rank": r.rank,
            "token": r.token,
            "shown": self.shown(r.token),
            "name": self.name(r.token),
            "logit": self.links.number(at.logit(r.token), numbers.fixed(r.logit, 2)),
            "stages": [
                self.stage(at.prob(r.token), r.prob, full),
                self.stage(at.tempered(r.token), r.tempered, full),
                self.stage(at.after_k(r.token), r.after_k, full) if r.rank < c.kept_by_k else CUT,
                CUT if cut else self.stage(at.odds(r.token), r.odds, full),
            ],
            "running": self.decimal(at.running(r.rank), r.running) if r.rank < c.kept_by_k else None,
            "stretch": "" if cut else f"{numbers.fixed(r.low, 4)} to {numbers.fixed(r.high, 4)}",
            "cut": cut,
            "drawn": r.token == c.token,
            "taken": r.token == self.token,
        }

    def stage(self, at: str, x: float, full: float) -> Context:
        """A probability and its bar in percent of the longest."""
        return {"number": self.percent(at, x), "width": round(100 * x / full, 2)}

    def others(self, start: int, stop: int) -> Context | None:
        """The ranks from `start` to `stop`, which are the first of all or the last of all: their shares together."""
        if stop <= start:
            return None
        return {"n": stop - start, "shares": [self.share_of(column, start, stop) for column in COLUMNS]}

    def share_of(self, column: str, start: int, stop: int) -> Markup:
        """What they have together at one stage, as a link to that sum."""
        c = self.choice
        counted = {"prob": len(c.order), "tempered": len(c.order), "after_k": c.kept_by_k, "odds": c.kept}[column]
        temperature = 1.0 if column == "prob" else c.settings.temperature
        share = float(getattr(c, "probs" if column == "prob" else column)[c.order[start:stop]].sum())
        edge = start or stop  # above: the first `stop`; below: all but the first `start`
        whole = Sampling(temperature, counted, 1, c.settings.seed)
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
        return self.links.number(at, percent(p))

    def decimal(self, at: str, x: float) -> Markup:
        return self.links.number(at, numbers.fixed(x, 4), css="num live")


def percent(p: float) -> str:
    """A probability in percent; nothing at all as 0 %, what is certain as 100 %."""
    return "0 %" if p == 0 else "100 %" if p == 1 else numbers.percent(p)


def brief_percent(p: float) -> str:
    """In as few figures as fit under a token: 61 %, 4.2 %, <0.1 %."""
    x = 100 * p
    if x < 0.05:
        return "<0.1 %" if x else "0 %"
    return f"{numbers.fixed(x, 0 if x >= 9.95 else 1)} %"
