"""What the page of generation shows around the choice: the text so far, and what the KV cache did at each step.

`cache_view` needs no page: give it steps made with `compare`, and `generate/_cache.html` shows them, in a lesson
as on the page of generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from markupsafe import Markup

from app.features.generate.choice import brief_percent
from app.features.generate.choice_charts import growth
from app.render import numbers
from app.render.heat import Scale, css
from app.render.links import Links
from app.render.tokens import token_html
from app.request.generation import MOST_TOKENS, GenerationState
from app.request.state import State
from app.stores.generations import Generation, Made, spelled
from model import LanguageModel
from model.runtime.generate import Step

TINT = Scale(1.0, 1.0)
SHOWN = 80  # tokens of a long text that was given; those before are counted


# -- the text


@dataclass(frozen=True)
class Given:
    """A token of the reader's text; `dropped` says that the step looked at no longer reads it."""

    shown: Markup
    dropped: bool


@dataclass(frozen=True)
class TextView:
    """The text so far. `made` are links to the choices; `n_hidden` tokens of a long text stand before `given`."""

    given: tuple[Given, ...]
    n_hidden: int
    made: tuple[Markup, ...]
    n_made: int
    running: bool
    end: str
    whole: str
    stop_url: str
    more: int
    more_url: str
    on_url: str
    drop_url: str
    n_picks: int


def text_view(generation: Generation, ask: GenerationState, step: int) -> TextView:
    """`step` is the one looked at."""
    made = generation.made[: ask.n]
    running = not generation.complete(ask.n)
    end = made[-1].step.end if made and made[-1].step.end in ("end token", "stop text") else ""
    model, prompt = generation.model, generation.prompt
    dropped = dropped_ones(model, made[step].step) if made else range(0)
    hidden = max(len(prompt) - SHOWN, 0)
    tokens = [*prompt, *(one.step.token for one in made)]
    can_go_on = not running and not end
    fits = len(tokens) <= model.config.n_ctx
    more = min(ask.n + 20, MOST_TOKENS) - ask.n if can_go_on else 0
    return TextView(
        given=tuple(Given(token_html(model.tokenizer, t), n in dropped) for n, t in enumerate(prompt) if n >= hidden),
        n_hidden=hidden,
        made=tuple(chip(model, one, ask, step, n in dropped) for n, one in enumerate(made, len(prompt))),
        n_made=len(made),
        running=running,
        end=end,
        whole=model.tokenizer.decode(tokens),
        stop_url=ask.make(len(made)).url() if running and made else "",
        more=more,
        more_url=ask.make(ask.n + more).url() if more else "",
        on_url=ask.after(*spelled(model, tokens)).url() if can_go_on and fits and not more else "",
        drop_url=ask.unbranched().url() if ask.picks else "",
        n_picks=len(ask.picks),
    )


def dropped_ones(model: LanguageModel, step: Step) -> range:
    """The places in the whole text that a step no longer reads: the oldest, a start token aside."""
    keeps_start = step.read[0] == model.tokenizer.start_id and len(step.read) > 1
    return range(keeps_start, keeps_start + step.dropped)


def chip(model: LanguageModel, one: Made, ask: GenerationState, looked_at: int, dropped: bool) -> Markup:
    """One token made: tinted by the probability it had, which also stands under it; it leads to its choice."""
    step = one.step
    on = step.index == looked_at
    tint = css(int(TINT.steps(np.array(one.prob))))
    kind = " ".join(filter(None, ("made", tint, "yours" if step.forced else "", "dropped" if dropped else "")))
    name = model.tokenizer.show(step.token)
    notes = (", taken by you" if step.forced else "") + (", no longer read" if dropped else "")
    label = f"token {step.index}: {name}, {numbers.percent(one.prob)}{notes}"
    here = ' aria-current="true"' if on else ""
    inner = f"{token_html(model.tokenizer, step.token)}<small>{brief_percent(one.prob)}</small>"
    shared = f'id="made-{step.index}" class="{kind}" aria-label="{escape(label, quote=True)}"{here}'
    if ask.is_long:
        return Markup(f'<button name="step" value="{step.index}" {shared}>{inner}</button>')
    return Markup(f'<a href="{escape(ask.look(step.index).url(), quote=True)}" {shared}>{inner}</a>')


def explored(model: LanguageModel, state: State, step: Step) -> State:
    """The run whose last row of logits made this step's choice, with the token made as its target."""
    text, bos = spelled(model, step.read)
    return State(model=state.model, text=text, target=model.target_name(step.token), bos=bos)


# -- the cache


@dataclass(frozen=True)
class CacheRow:
    """One step: rows of keys and values kept and new (and both in percent of the widest), pairs of one head, time.

    `all_pairs` is `pairs_without` as a link to how it comes about.
    """

    index: int
    t: int
    token: Markup
    reused: int
    new: int
    reused_width: float
    new_width: float
    pairs: int
    pairs_without: int
    all_pairs: Markup
    ms: float
    ms_without: float | None
    difference: float | None
    dropped: int
    rebuilt: bool


@dataclass(frozen=True)
class Rebuilt:
    """The cache thrown away: before which step, what was dropped just then, how many rows were computed again."""

    index: int
    dropped: int
    tokens: Markup
    rows: int


@dataclass(frozen=True)
class CacheView:
    """All steps and their sums. `difference` is the largest between the two ways' logits, `scale` the largest logit;
    both None where the steps were not computed both ways.
    """

    rows: tuple[CacheRow, ...]
    pairs: int
    pairs_without: int
    ms: float
    ms_without: float | None
    difference: float | None
    scale: float | None
    agrees: bool
    rebuilt: tuple[Rebuilt, ...]
    n_ctx: int
    n_head: int
    n_layer: int
    pairs_chart: Markup
    times_chart: Markup | None
    bytes_a_row: int


def cache_view(model: LanguageModel, steps: Sequence[Step], cells: Links) -> CacheView | None:
    """Of steps made one after the other; None where there is none yet. `cells` link in any run of this model."""
    if not steps:
        return None
    widest = max(step.rows.reused + step.rows.new for step in steps)
    rows = tuple(cache_row(model, step, widest, cells) for step in steps)
    compared = [step.comparison for step in steps if step.comparison]
    both = len(compared) == len(steps)
    difference = max(c.difference for c in compared) if both else None
    scale = max(c.scale for c in compared) if both else None
    xs = [row.index for row in rows]
    without = [row.ms_without or 0.0 for row in rows]
    c = model.config
    return CacheView(
        rows=rows,
        pairs=sum(row.pairs for row in rows),
        pairs_without=sum(row.pairs_without for row in rows),
        ms=sum(row.ms for row in rows),
        ms_without=sum(without) if both else None,
        difference=difference,
        scale=scale,
        agrees=not both or all(one.difference <= 1e-4 * one.scale for one in compared),
        rebuilt=tuple(rebuilds(model, steps)),
        n_ctx=c.n_ctx,
        n_head=c.n_head,
        n_layer=c.n_layer,
        pairs_chart=growth(
            xs, [float(row.pairs) for row in rows], [float(row.pairs_without) for row in rows],
            ("with cache", "without"), "Query-key pairs of one head at each step, with the cache and without it",
        ),
        times_chart=growth(
            xs, [row.ms for row in rows], without, ("with cache", "without"),
            "Milliseconds of each step, with the cache and without it", cut_peaks=True,
        ) if both else None,
        bytes_a_row=2 * 4 * c.n_layer * c.d_model,
    )  # fmt: skip


def cache_row(model: LanguageModel, step: Step, widest: int, cells: Links) -> CacheRow:
    other, t = step.comparison, len(step.read)
    return CacheRow(
        index=step.index,
        t=t,
        token=token_html(model.tokenizer, step.token),
        reused=step.rows.reused,
        new=step.rows.new,
        reused_width=round(100 * step.rows.reused / widest, 2),
        new_width=round(100 * step.rows.new / widest, 2),
        pairs=step.rows.pairs,
        pairs_without=step.rows.pairs_without,
        all_pairs=cells.number(f"calc({t}*({t}+1)/2)", numbers.count(step.rows.pairs_without)),
        ms=1000 * step.seconds,
        ms_without=1000 * other.seconds if other else None,
        difference=other.difference if other else None,
        dropped=step.dropped,
        rebuilt=step.rebuilt,
    )


def rebuilds(model: LanguageModel, steps: Sequence[Step]) -> list[Rebuilt]:
    """Each time the context was full: which of the tokens read until then were dropped."""
    found: list[Rebuilt] = []
    before: tuple[int, ...] = ()
    n_before = 0
    for step in steps:
        if step.rebuilt and before:
            n = step.dropped - n_before
            first = 1 if step.read[0] == before[0] == model.tokenizer.start_id and len(step.read) > 1 else 0
            gone = before[first : first + n]
            shown = Markup("").join(token_html(model.tokenizer, token) for token in gone[:12])
            found.append(Rebuilt(step.index, n, shown + ("…" if n > 12 else ""), step.rows.new))
        before, n_before = (*step.read, step.token), step.dropped
    return found
