"""The sentence section: tokens with their places and bytes, what is predicted, the likeliest next tokens."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from app.render import cost, numbers
from app.render.links import Links
from app.render.numbers import exact
from app.render.templating import Context
from app.render.tokens import token_html
from app.request.state import State
from model import Run
from model.address.parser import Address, Calc, parse
from model.runtime.loaded import LoadedModel

GUESSES = 5

# Of a text of more tokens than the first of these, so many are shown around what is looked at, and at the end.
MOST_TOKENS, AROUND, AT_THE_END = 96, 32, 4

# Axes that are positions, and what a position on them is called beside its token.
ROLES = {"pos": "", "query": "query", "key": "key"}


def sentence_view(run: Run, state: State) -> Context:
    """`state.at` is the selected address: its positions are marked among the tokens.

    `rest` is the probability of all tokens that are not listed; `n_set` how many numbers the reader set.
    """
    links, tokenizer, last = Links(state), run.model.tokenizer, run.n_pos - 1
    top = likeliest(run)
    rest = 1.0 - sum(p for _, p in top)
    others = "calc(1" + "".join(f"-probs[{last},{v}]" for v, _ in top) + ")"
    return {
        "tokens": token_views(run, links, roles(run, state.at)),
        "last": {"position": last, "shown": token_html(tokenizer, run.tokens[last])},
        "target": token_html(tokenizer, run.target),
        "target_is_own": run.target_is_own,
        "is_sequence": run.is_sequence,
        "loss": links.number("loss", exact(float(run.tensor("loss"))), css="num live"),
        "guesses": [_guess(run, state, links, token, p) for token, p in top],
        "n_rest": run.model.config.d_vocab - len(top),
        "rest": links.number(others, numbers.percent(max(rest, 0.0))),
        "own_url": state.aim("").url(),
        "sequence_url": state.aim("sequence").url(),
        "cost": cost.of_text(run),
        "can_learn": not run.is_long,
        "n_set": numbers_set(run),
    }


def numbers_set(run: Run) -> int:
    """How many numbers the changes set: all of a range, and each once, however many changes meet in it."""
    masks: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]] = {}
    for patch in run.patches:
        mask = masks.setdefault(patch.at.site, np.zeros(run.shape(patch.at.site), dtype=bool))
        mask[patch.at.index] = True
    return sum(int(np.count_nonzero(mask)) for mask in masks.values())


def likeliest(run: Run) -> list[tuple[int, float]]:
    """The likeliest next tokens with their probabilities, and the target where it is not among them."""
    top = run.top(GUESSES)
    if run.is_sequence or run.target in dict(top):
        return top
    return [*top, (run.target, float(run.value_at("probs", (run.n_pos - 1, run.target))))]


def token_views(run: Run, links: Links, marked: dict[int, str]) -> list[Context]:
    """All tokens; of a long text those around the marked ones and the end. `gap` leads to those left out before one."""
    tokenizer = run.model.tokenizer
    views: list[Context] = []
    after = 0
    for t in in_view(run.n_pos, sorted(marked)):
        token = run.tokens[t]
        shown = token_html(tokenizer, token)
        role = f'<span class="role">{marked[t]}</span>' if marked.get(t) else ""
        inner = Markup(f'<span class="i">{t}{role}</span>{shown}')
        title = f' title="position {t}, token {token}"'
        views.append(
            {
                "position": t,
                "link": links.link(f"tokens[{t}]", inner, css="token", current=t in marked, attributes=title),
                "shown": shown,
                "id": token,
                "bytes": tokenizer.bytes(token).hex(" ").upper(),
                "gap": _gap(links, after, t) if after < t else "",
            }
        )
        after = t + 1
    return views


def in_view(n: int, marked: list[int]) -> list[int]:
    """The positions shown of a text of `n` tokens: all, or some around each marked one (none: the end) and the last."""
    if n <= MOST_TOKENS:
        return list(range(n))
    each = AROUND // max(len(marked), 1)
    shown = {0, *range(n - AT_THE_END, n)}
    for t in marked or [n - 1]:
        first = min(max(t - each // 2, 0), n - each)
        shown |= set(range(first, first + each))
    return sorted(shown)


def _gap(links: Links, start: int, stop: int) -> Markup:
    """A way to the tokens from `start` up to `stop` that are left out: to the nearest of them."""
    title = f' title="positions {start} to {stop - 1}"'
    return links.link(f"tokens[{stop - 1}]", Markup(f"{stop - start:,} more"), css="gap", attributes=title)


def _guess(run: Run, state: State, links: Links, token: int, p: float) -> Context:
    """One likely next token: `width` is its bar in percent, `target_url` makes it the target."""
    return {
        "shown": token_html(run.model.tokenizer, token),
        "width": round(100 * p, 2),
        "number": links.number(f"probs[{run.n_pos - 1},{token}]", numbers.percent(p)),
        "target_url": state.aim(writable(run.model, token)).url(),
        "is_target": not run.is_sequence and token == run.target,
    }


def writable(model: LoadedModel, token: int) -> str:
    """How to write a token in the target field, which holds one line: by its id where its text has a line end."""
    name = model.target_name(token)
    return name if name.isprintable() else f"id:{token}"


def roles(run: Run, at: str) -> dict[int, str]:
    """Positions that the selected address names, and as what: query, key, or just the position."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        return {}
    marked: dict[int, str] = {}
    axes = run.model.graph[parsed.site].axes
    for axis, index in zip(axes, parsed.index, strict=False):
        if axis in ROLES and isinstance(index, int):
            marked[index] = " ".join(filter(None, (marked.get(index, ""), ROLES[axis])))
    return marked


def heading(run: Run, at: str) -> str:
    """What is selected, in plain text, for the page's title: the number, or the tensor of which several are."""
    parsed = parse(at)
    if isinstance(parsed, Address) and not run.check(parsed).is_single:
        return f"{run.model.graph[parsed.site].title}: {parsed}"
    return f"{at if len(at) <= 60 else at[:57] + '…'} = {exact(float(run.values(at)))}"
