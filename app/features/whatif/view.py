"""What if a number were another: the run as it was beside the run that goes on from the change, site by site."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from app.panels.learning.show import points
from app.render import charts, numbers
from app.render.curves import LogAxis
from app.render.links import Links
from app.render.numbers import exact
from app.render.tokens import token_html
from app.request.paths import WHATIF
from app.request.state import State
from model import Run
from model.address.parser import Address
from model.address.patch import NO_ADDITIONS, Patch
from model.errors import ReaderError

TOKENS = 5  # the likeliest before and after are listed
ADDITIONS = Markup("the additions of all blocks left out: x = f(x)")
MOST_CHOICES = 400  # with more than this, single heads are left to the free field

PIECE = 2**20  # numbers compared at once

# The sites of a block that are compared, and those after the blocks.
IN_BLOCK = ("resid_pre", "attn.pattern", "attn.z", "attn_out", "resid_mid", "mlp.post", "mlp_out", "resid_post")
AFTER = ("ln_final.out", "logits", "probs")


@dataclass(frozen=True)
class Set:
    """One change in force: in words, how it is written, and the page without it."""

    words: Markup
    written: str
    without: str


@dataclass(frozen=True)
class TokenRow:
    """One next token before and after."""

    token: Markup
    before: Markup
    after: Markup
    change: str
    bar: Markup
    is_target: bool


@dataclass(frozen=True)
class SiteRow:
    """How much one site changed: `rms` over all its numbers, and the place where it changed most."""

    block: str
    words: str
    bar: Markup
    rms: str
    place: Markup
    before: Markup
    after: Markup


@dataclass(frozen=True)
class WhatIfView:
    """All that the page shows of the two runs."""

    verdict: Markup
    tokens: tuple[TokenRow, ...]
    axis: Markup
    sites: tuple[SiteRow, ...]
    untouched: str


def sets(run: Run, state: State) -> tuple[Set, ...]:
    """The changes in force."""
    found = []
    for n, change in enumerate(state.changes):
        others = state.changes[:n] + state.changes[n + 1 :]
        said = ADDITIONS if change == NO_ADDITIONS else words(run, run.model.patch(change))
        found.append(Set(said, change, state.change(*others).url(WHATIF)))
    return tuple(found)


def words(run: Run, patch: Patch) -> Markup:
    """A change in words: head 2 of block 1 switched off."""
    node = run.model.graph[patch.at.site]
    index = patch.at.index
    single = [i for i in index if isinstance(i, int)]
    is_one = "{}" in node.switch  # of its heads or neurons
    if node.switch and patch.value == 0 and not patch.add and (single == [*index[1:2]] if is_one else not single):
        off = node.switch.format(*single)
        return Markup("{} of block {} switched off").format(off, node.block)
    did = "moved by" if patch.add else "set to"
    return Markup("<code>{}</code> {} {}").format(str(patch.at), did, numbers.full(patch.value, 6))


def choices(run: Run) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """What can be switched off, by block: (written, words)."""
    config = run.model.config
    heads = range(config.n_head if config.n_layer * (config.n_head + 2) <= MOST_CHOICES else 0)
    whole = ("the whole network", ((NO_ADDITIONS, "the additions of all blocks"),))
    blocks = (
        (
            f"block {n}",
            (
                *((f"blocks.{n}.attn.z[:,{head},:]=0", f"block {n}: head {head}") for head in heads),
                (f"blocks.{n}.attn_out=0", f"block {n}: all of its attention"),
                (f"blocks.{n}.mlp_out=0", f"block {n}: its feed-forward network"),
            ),
        )
        for n in range(config.n_layer)
    )
    return *blocks, whole


def whatif_view(base: Run, changed: Run, state: State) -> WhatIfView:
    """`state` names the changed run."""
    return _Both(base, changed, state).view()


@dataclass(frozen=True)
class Change:
    """How a site changed: the root mean square, and the place where most, with its number before and after."""

    site: str
    rms: float
    place: tuple[int, ...]
    before: float
    after: float


class _Both:
    """The two runs and links to the numbers of each."""

    def __init__(self, base: Run, changed: Run, state: State) -> None:
        self.base, self.changed, self.last = base, changed, base.n_pos - 1
        self.of_base, self.of_changed = Links(state.replace(changes=())), Links(state)

    def view(self) -> WhatIfView:
        compared = [self._compare(site) for site in self._sites()]
        touched = [change for change in compared if change.rms != 0]
        axis = LogAxis.over([change.rms for change in touched])
        rows, block = [], ""
        for change in touched:
            row = self._row(change, axis)
            rows.append(row if row.block != block else replace(row, block=""))
            block = row.block
        untouched = [change.site for change in compared if change.rms == 0]
        return WhatIfView(self._verdict(), self._tokens(), axis.head(), tuple(rows), _listed(untouched))

    def _sites(self) -> list[str]:
        """Each site once: a block's stream out is the next one's stream in."""
        blocks = [f"blocks.{n}.{site}" for n in range(self.base.model.config.n_layer) for site in IN_BLOCK]
        return [site for site in blocks if site == "blocks.0.resid_pre" or not site.endswith("resid_pre")] + [*AFTER]

    def _compare(self, site: str) -> Change:
        """In pieces: several copies of a whole table over the vocabulary would be more than a long run has room for."""
        before, after = self.base.tensor(site).numpy(), self.changed.tensor(site).numpy()
        squares, largest = 0.0, (-1.0, 0)
        for start in range(0, before.size, PIECE):
            piece = slice(start, start + PIECE)
            change = after.ravel()[piece].astype(np.float64) - before.ravel()[piece]
            squares += float(np.square(change).sum())
            size = np.abs(np.nan_to_num(change))
            here = int(size.argmax())
            if size[here] > largest[0]:
                largest = (float(size[here]), start + here)
        place = tuple(int(i) for i in np.unravel_index(largest[1], before.shape))
        rms = float(np.sqrt(squares / before.size))
        return Change(site, rms, place, float(before[place]), float(after[place]))

    def _row(self, change: Change, axis: LogAxis) -> SiteRow:
        site, place = change.site, change.place
        node = self.base.model.graph[site]
        at = str(Address(site, place))
        show = numbers.percent if node.span == "share" else exact
        return SiteRow(
            block="after the blocks" if node.block is None else f"block {node.block}",
            words=site.split(".", 2)[2] if node.block is not None else site,
            bar=axis.bars(change.rms),
            rms=exact(change.rms),
            place=Markup("<code>[{}]</code>").format(",".join(map(str, place))),
            before=self.of_base.number(at, show(change.before)),
            after=self.of_changed.number(at, show(change.after)),
        )

    def _tokens(self) -> tuple[TokenRow, ...]:
        target = [] if self.base.is_sequence else [self.base.target]
        runs = [run for run in (self.base, self.changed) if not _is_level(run)]  # no token leads where all are equal
        top = [token for run in runs for token, p in run.top(TOKENS) if p > 0]
        listed = list(dict.fromkeys([*target, *top]))
        pairs = [
            tuple(float(run.value_at("probs", (self.last, token))) for run in (self.base, self.changed))
            for token in listed
        ]
        most = numbers.largest([_visible(after - before) for before, after in pairs])
        return tuple(
            TokenRow(
                token_html(self.base.model.tokenizer, token),
                self.of_base.number(f"probs[{self.last},{token}]", numbers.percent(before)),
                self.of_changed.number(f"probs[{self.last},{token}]", numbers.percent(after)),
                points(after - before),
                charts.signed_bar(_visible(after - before), most),
                bool(target) and token == target[0],
            )
            for token, (before, after) in zip(listed, pairs, strict=True)
        )

    def _verdict(self) -> Markup:
        before, after = (float(run.tensor("loss")) for run in (self.base, self.changed))
        losses = [
            cells.number("loss", exact(loss), css="num live")
            for cells, loss in ((self.of_base, before), (self.of_changed, after))
        ]
        word = "rises" if after > before else "falls" if after < before else ""
        if before == after:
            said = Markup("The loss stays at {}: unchanged.").format(losses[1])
        elif word and exact(before) == exact(after):
            by = numbers.value(abs(after - before))
            said = Markup("The loss stays at {} to the digits shown: it {} by {}.").format(losses[1], word, by)
        elif word:
            said = Markup("The loss {} from {} to {}.").format(word, *losses)
        else:
            said = Markup("The loss is {}, and with the change {}.").format(*losses)
        if _is_level(self.changed):
            n = numbers.count(self.base.model.config.d_vocab)
            return said + Markup(" With the change all {} tokens are equally likely.").format(n)
        first, now = (run.largest_logit(self.last) for run in (self.base, self.changed))
        shown = [token_html(self.base.model.tokenizer, token) for token in (first, now)]
        if first == now:
            return said + Markup(" {} stays the first guess.").format(shown[0])
        return said + Markup(" The first guess was {}; now it is {}.").format(*shown)


def _visible(change: float) -> float:
    """A change of probability as far as its two digits show it: none is drawn where they show none."""
    return 0.0 if abs(100 * change) < 0.005 else change


def _is_level(run: Run) -> bool:
    """Whether every next token is equally likely."""
    probs = run.tensor("probs")[-1]
    return bool((probs == probs[0]).all())


def _listed(sites: list[str]) -> str:
    """Sites that did not change, in words."""
    if not sites:
        return ""
    if len(sites) <= 3:
        return ", ".join(sites)
    return f"{sites[0]} and {len(sites) - 1} more, up to {sites[-1]}"


def neuron(run: Run, block: int, number: int) -> str:
    """How to write a neuron that is switched off. Raises ReaderError where there is none such."""
    config = run.model.config
    if not (0 <= block < config.n_layer and 0 <= number < config.d_mlp):
        error = ReaderError(
            f"There is no neuron {number} in block {block}.",
            f"Blocks are 0 to {config.n_layer - 1}, neurons 0 to {config.d_mlp - 1}.",
        )
        error.part = "neuron"
        raise error
    return f"blocks.{block}.mlp.post[:,{number}]=0"
