"""Addresses of the numbers of a `Choice`: each is arithmetic on the logits of the run it was made from.

With e_v = e^((z_v − max)/T), everything between the logits and the draw is a quotient of sums of e: a probability
after temperature is e_v over the sum of all; after a cut, e_v over the sum of the first n of the ranking; the ends of
an interval are the sums of the first j and j+1 over the sum of the first n. So one thing has to be written: the sum
of the first n of the ranking, without naming thousands of tokens. A few are listed. Of many, each entry of the row
counts by whether its logit lies above the cut c, halfway between the last kept logit and the first that is cut:
½ + ½·(z − c)/√((z − c)²) is 1 above and 0 below. Of equal logits at the cut, the number that is kept is counted.
"""

from __future__ import annotations

from model.runtime.sample import Choice

LISTED = 12  # a sum of up to so many tokens names them


class ChoiceAddress:
    """`calc(…)` addresses in the run whose logits at position `t` the choice was made from."""

    def __init__(self, choice: Choice) -> None:
        self.choice, self.row = choice, f"logits[{choice.t},:]"

    # -- of one token

    def logit(self, token: int) -> str:
        return self._at(token)

    def gap(self, token: int) -> str:
        """How far the token's logit lies under the largest."""
        return f"calc({self._at(token)}-max({self.row}))"

    def prob(self, token: int) -> str:
        """Before temperature."""
        return f"calc({self._raised(self._at(token), 1)}/sum({self._raised(self.row, 1)}))"

    def tempered(self, token: int) -> str:
        """After temperature."""
        return self._share(token, len(self.choice.order))

    def after_k(self, token: int) -> str:
        """After top-k, rescaled."""
        return self._share(token, self.choice.kept_by_k)

    def odds(self, token: int) -> str:
        """After both cuts, rescaled."""
        return self._share(token, self.choice.kept)

    # -- of the ranking

    def running(self, rank: int) -> str:
        """The total of `after_k` down to this rank."""
        return self._quotient(min(rank + 1, self.choice.kept_by_k), self.choice.kept_by_k)

    def interval(self, rank: int) -> tuple[str, str]:
        """The two ends of a kept token's interval; a token that was cut has an empty one at 1."""
        n = self.choice.kept
        return self._quotient(min(rank, n), n), self._quotient(min(rank + 1, n), n)

    @property
    def kept_mass(self) -> str:
        return self._quotient(self.choice.kept, len(self.choice.order))

    @property
    def removed_by_k(self) -> str:
        return self._removed(self.choice.kept_by_k, len(self.choice.order))

    @property
    def removed_by_p(self) -> str:
        return self._removed(self.choice.kept, self.choice.kept_by_k)

    # -- how they are written

    def _at(self, token: int) -> str:
        return f"logits[{self.choice.t},{token}]"

    def _raised(self, what: str, temperature: float) -> str:
        """e^((what − max)/T)."""
        gap = f"{what}-max({self.row})"
        return f"exp({gap})" if temperature == 1 else f"exp(({gap})/{float(temperature)!r})"

    def _share(self, token: int, n: int) -> str:
        """The token's part of the first n of the ranking."""
        rank = self.choice.rank_of(token)
        if rank >= n or self._certain:
            return "calc(1)" if rank == 0 else "calc(0)"
        return f"calc({self._raised(self._at(token), self.choice.settings.temperature)}/({self._first(n)}))"

    def _quotient(self, first: int, n: int) -> str:
        """The share of the first `first` of the ranking in the first `n`."""
        if first in (0, n) or self._certain:
            return f"calc({min(first, 1)})"
        return f"calc(({self._first(first)})/({self._first(n)}))"

    def _removed(self, kept: int, of: int) -> str:
        """The share of the ranking's first `of` that a cut after `kept` took away."""
        if kept == of or self._certain:
            return "calc(0)"
        return f"calc(1-({self._first(kept)})/({self._first(of)}))"

    @property
    def _certain(self) -> bool:
        """At temperature 0 nothing is computed: the first of the ranking gets 1 by definition."""
        return self.choice.settings.temperature == 0

    def _first(self, n: int) -> str:
        """Σ e over the first n of the ranking."""
        temperature, order, logits = self.choice.settings.temperature, self.choice.order, self.choice.logits
        if n == len(order):
            return f"sum({self._raised(self.row, temperature)})"
        if n <= LISTED:
            return "+".join(self._raised(self._at(token), temperature) for token in order[:n].tolist())
        last, cut = int(order[n - 1]), int(order[n])
        if logits[last] != logits[cut]:
            return self._above(last, cut)
        ranked = logits[order]
        tied = int((ranked == logits[last]).argmax())  # the rank where the equal logits begin
        equal = f"{n - tied}*{self._raised(self._at(last), temperature)}"
        return f"{self._above(int(order[tied - 1]), last)}+{equal}" if tied else equal

    def _above(self, last: int, cut: int) -> str:
        """Σ e over the tokens whose logit lies above the middle between those of `last` and `cut`."""
        over = f"({self.row}-({self._at(last)}+{self._at(cut)})/2)"
        return f"sum({self._raised(self.row, self.choice.settings.temperature)}*(0.5+0.5*{over}/sqrt({over}*{over})))"
