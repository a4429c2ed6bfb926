"""What if a number were another: the run as it was beside the run that goes on from the change, site by site."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from app.render import charts, numbers
from app.render.curves import LogAxis
from app.render.links import Links
from app.render.templating import Context
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


# -- the changes


def changes_in_force(run: Run, state: State) -> list[Context]:
    """Each change: in words, how it is written, and the page without it."""
    changes = []
    for n, change in enumerate(state.changes):
        others = state.change(*state.changes[:n], *state.changes[n + 1 :])
        words = ADDITIONS if change == NO_ADDITIONS else in_words(run, run.model.patch(change))
        changes.append({"words": words, "written": change, "without": others.url(WHATIF)})
    return changes


def in_words(run: Run, patch: Patch) -> Markup:
    """A change in words: head 2 of block 1 switched off."""
    node = run.model.graph[patch.at.site]
    index = patch.at.index
    single = [i for i in index if isinstance(i, int)]
    is_one = "{}" in node.switch  # of its heads or neurons
    if node.switch and patch.value == 0 and not patch.add and (single == [*index[1:2]] if is_one else not single):
        return Markup("{} of block {} switched off").format(node.switch.format(*single), node.block)
    did = "moved by" if patch.add else "set to"
    return Markup("<code>{}</code> {} {}").format(str(patch.at), did, numbers.full(patch.value, 6))


def choices(run: Run) -> dict[str, dict[str, str]]:
    """What can be switched off: group -> how it is written -> in words."""
    config = run.model.config
    heads = range(config.n_head if config.n_layer * (config.n_head + 2) <= MOST_CHOICES else 0)
    groups = {}
    for n in range(config.n_layer):
        groups[f"block {n}"] = {
            **{f"blocks.{n}.attn.z[:,{head},:]=0": f"block {n}: head {head}" for head in heads},
            f"blocks.{n}.attn_out=0": f"block {n}: all of its attention",
            f"blocks.{n}.mlp_out=0": f"block {n}: its feed-forward network",
        }
    return groups | {"the whole network": {NO_ADDITIONS: "the additions of all blocks"}}


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


# -- the two runs


def whatif_view(base: Run, changed: Run, state: State) -> Context:
    """All that the page shows of the two runs; `state` names the changed one."""
    compared = [_compare(base, changed, site) for site in _sites(base)]
    touched = [change for change in compared if change["rms"] != 0]
    return {
        "was": Links(state.replace(changes=())),
        "now": Links(state),
        "losses": [float(run.tensor("loss")) for run in (base, changed)],
        "guesses": [run.largest_logit(base.n_pos - 1) for run in (base, changed)],
        "is_level": _is_level(changed),
        "tokens": _tokens(base, changed),
        "axis": LogAxis.over([change["rms"] for change in touched]),
        "sites": touched,
        "untouched": _listed([change["site"] for change in compared if change["rms"] == 0]),
    }


def _sites(run: Run) -> list[str]:
    """Each site once: a block's stream out is the next one's stream in."""
    blocks = [f"blocks.{n}.{site}" for n in range(run.model.config.n_layer) for site in IN_BLOCK]
    return [site for site in blocks if site == "blocks.0.resid_pre" or not site.endswith("resid_pre")] + [*AFTER]


def _compare(base: Run, changed: Run, site: str) -> Context:
    """How a site changed: the root mean square, and the place where most, with its number before and after.

    In pieces: several copies of a whole table over the vocabulary would be more than a long run has room for.
    """
    before, after = base.tensor(site).numpy(), changed.tensor(site).numpy()
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
    return {
        "site": site,
        "node": base.model.graph[site],
        "rms": float(np.sqrt(squares / before.size)),
        "place": place,
        "at": str(Address(site, place)),
        "before": float(before[place]),
        "after": float(after[place]),
    }


def _tokens(base: Run, changed: Run) -> list[Context]:
    """The target and the likeliest next tokens of both runs, with their probabilities."""
    target = None if base.is_sequence else base.target
    runs = [run for run in (base, changed) if not _is_level(run)]  # no token leads where all are equal
    top = [token for run in runs for token, p in run.top(TOKENS) if p > 0]
    last = base.n_pos - 1
    rows: list[Context] = []
    for token in dict.fromkeys(([] if target is None else [target]) + top):
        before, after = (float(run.value_at("probs", (last, token))) for run in (base, changed))
        row = {"token": token, "at": f"probs[{last},{token}]", "before": before, "after": after}
        rows.append(row | {"is_target": token == target, "seen": _visible(after - before)})
    most = numbers.largest([row["seen"] for row in rows])
    return [row | {"bar": charts.signed_bar(row["seen"], most)} for row in rows]


def _visible(change: float) -> float:
    """A change of probability as far as its two digits show it: none is drawn where they show none."""
    return 0.0 if abs(100 * change) < 0.005 else change


def _is_level(run: Run) -> bool:
    """Whether every next token is equally likely."""
    probs = run.tensor("probs")[-1]
    return bool((probs == probs[0]).all())


def _listed(sites: list[str]) -> str:
    """Sites that did not change, in words."""
    if len(sites) <= 3:
        return ", ".join(sites)
    return f"{sites[0]} and {len(sites) - 1} more, up to {sites[-1]}"
