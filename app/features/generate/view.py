"""What the page of generation shows around the choice: the text so far, and what the KV cache did at each step.

`cache_view` needs no page: give it steps made with `compare`, and `generate/_cache.html` shows them, in a lesson
as on the page of generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from app.features.generate.choice import brief_percent
from app.features.generate.choice_charts import growth
from app.render import numbers
from app.render.heat import Scale, css
from app.render.links import Links
from app.render.templating import Context
from app.render.tokens import token_html
from app.request.generation import MOST_TOKENS, GenerationState
from app.request.state import State
from app.stores.generations import Generation, Made, spelled
from model import LanguageModel
from model.runtime.generate import Step

TINT = Scale(1.0, 1.0)
SHOWN = 80  # tokens of a long text that was given; those before are counted


# -- the text


def text_view(generation: Generation, ask: GenerationState, step: int) -> Context:
    """The text so far; `step` is the one looked at. `n_hidden` tokens of a long text stand before those given."""
    made = generation.made[: ask.n]
    running = not generation.complete(ask.n)
    end = made[-1].step.end if made and made[-1].step.end in ("end token", "stop text") else ""
    model, prompt = generation.model, generation.prompt
    dropped = dropped_ones(model, made[step].step) if made else range(0)
    hidden = max(len(prompt) - SHOWN, 0)
    tokens = [*prompt, *(one.step.token for one in made)]
    can_go_on = not running and not end
    more = min(ask.n + 20, MOST_TOKENS) - ask.n if can_go_on else 0
    from_here = can_go_on and not more and len(tokens) <= model.config.n_ctx
    return {
        "given": [(token_html(model.tokenizer, prompt[n]), n in dropped) for n in range(hidden, len(prompt))],
        "n_hidden": hidden,
        "made": [chip(model, one, ask, step, n in dropped) for n, one in enumerate(made, len(prompt))],
        "n_made": len(made),
        "running": running,
        "end": end,
        "whole": model.tokenizer.decode(tokens),
        "stop_url": ask.make(len(made)).url() if running and made else "",
        "more": more,
        "more_url": ask.make(ask.n + more).url() if more else "",
        "on_url": ask.after(*spelled(model, tokens)).url() if from_here else "",
        "drop_url": ask.replace(pick=(), first=0).url() if ask.picks else "",
        "n_picks": len(ask.picks),
    }


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


def cache_view(model: LanguageModel, steps: Sequence[Step], links: Links) -> Context | None:
    """Of steps made one after the other; None where there is none yet. `links` lead into any run of this model.

    `difference` is the largest between the logits of both ways, `scale` the largest logit; None where the steps were
    not computed both ways.
    """
    if not steps:
        return None
    widest = max(step.rows.reused + step.rows.new for step in steps)
    rows = [cache_row(model, step, widest, links) for step in steps]
    compared = [step.comparison for step in steps if step.comparison]
    both = len(compared) == len(steps)
    c = model.config
    return {
        "rows": rows,
        **{name: sum(row[name] for row in rows) for name in ("pairs", "pairs_without", "ms")},
        "ms_without": sum(row["ms_without"] for row in rows) if both else None,
        "difference": max(c.difference for c in compared) if both else None,
        "scale": max(c.scale for c in compared) if both else None,
        "agrees": not both or all(one.difference <= 1e-4 * one.scale for one in compared),
        "rebuilt": rebuilds(model, steps),
        "n_ctx": c.n_ctx,
        "n_head": c.n_head,
        "n_layer": c.n_layer,
        "pairs_chart": two_ways(rows, "pairs", "Query-key pairs of one head at"),
        "times_chart": two_ways(rows, "ms", "Milliseconds of", cut_peaks=True) if both else None,
        "bytes_a_row": 2 * 4 * c.n_layer * c.n_kv_head * c.d_head,
    }


def two_ways(rows: Sequence[Context], name: str, what: str, *, cut_peaks: bool = False) -> Markup:
    """A figure of every step with the cache and without it."""
    first, second = ([float(row[key]) for row in rows] for key in (name, f"{name}_without"))
    label = f"{what} each step, with the cache and without it"
    steps = [row["index"] for row in rows]
    return growth(steps, first, second, ("with cache", "without"), label, cut_peaks=cut_peaks)


def cache_row(model: LanguageModel, step: Step, widest: int, links: Links) -> Context:
    """One step: rows of keys and values kept and new (and both in percent of the widest), pairs of one head, time."""
    other, rows, t = step.comparison, step.rows, len(step.read)
    return {
        "index": step.index,
        "token": token_html(model.tokenizer, step.token),
        "reused": rows.reused,
        "new": rows.new,
        "reused_width": round(100 * rows.reused / widest, 2),
        "new_width": round(100 * rows.new / widest, 2),
        "pairs": rows.pairs,
        "pairs_without": rows.pairs_without,
        "all_pairs": links.number(f"calc({t}*({t}+1)/2)", numbers.count(rows.pairs_without)),
        "ms": 1000 * step.seconds,
        "ms_without": 1000 * other.seconds if other else None,
        "difference": other.difference if other else None,
        "rebuilt": step.rebuilt,
    }


def rebuilds(model: LanguageModel, steps: Sequence[Step]) -> list[Context]:
    """Each time the context was full and the cache thrown away: which tokens were dropped, how many rows made again."""
    found = []
    for last, step in pairwise(steps):
        if step.rebuilt:
            n, read = step.dropped - last.dropped, (*last.read, last.token)
            first = int(step.read[0] == read[0] == model.tokenizer.start_id and len(step.read) > 1)
            gone = read[first : first + n]
            shown = Markup("").join(token_html(model.tokenizer, token) for token in gone[:12])
            tokens = shown + ("…" if n > 12 else "")
            found.append({"index": step.index, "dropped": n, "tokens": tokens, "rows": step.rows.new})
    return found
