"""A number before and after learning steps: both values, the change, its way there, the form that asks for steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from app.panels import steps
from app.panels.why.links import Links
from app.panels.why.pictures import Picture, chart
from app.render import charts, numbers
from app.render.cost import of_passes
from app.render.numbers import exact
from app.render.templating import Context
from app.request.page_state import written
from app.request.paths import LEARN
from app.request.state import State
from model.address.parser import Address
from model.runtime.learn import MOST_STEPS

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node
    from model.explain.explanation import Explanation
    from model.ops.update import Rate

CHART_FROM = 3  # steps; fewer are seen in the two values


def after(run: Run, state: State, address: Address, links: Links, e: Explanation) -> Context:
    """The number before and after, and the change. `links` go out from `state.at`, to addresses as `run` names them."""
    k = address.step or 0
    is_moment = address.kind in ("m", "v")  # then it is the weight's before and after that are shown
    address = replace(address, quantity=f"step({k})") if is_moment else address
    start, later = str(steps.before(address)), str(address)
    change = f"calc({later}-{start})"
    moved = float(run.values(change))
    was, now = apart(float(run.values(start)), float(run.values(later)))
    return {
        "steps": steps.in_words(k),
        "is_moment": is_moment,
        "before": links.to(start, was, title=start),
        "after": links.to(later, now, title=later) if is_moment else Markup("<b>{}</b>").format(now),
        "change": links.to(change, signed(moved), title=change) if math.isfinite(moved) else "none",
        "way": _way(run, address, k, e),
        "form": form(state, address, run.rate),
        "more": [(name, links.code(at)) for name, at in _more(run, address)],
    }


def apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many figures as it takes to see how far apart they are, nine at most."""
    for figures in range(4, 9):
        left, right = float(f"{a:.{figures}g}"), float(f"{b:.{figures}g}")
        if abs((left - right) - (a - b)) <= 0.05 * abs(a - b):
            return numbers.full(a, figures), numbers.full(b, figures)
    return numbers.full(a), numbers.full(b)


def signed(x: float) -> str:
    """A change: with its plus."""
    return exact(x) if x <= 0 else f"+{exact(x)}"


def waiting(run: Run, state: State, address: Address | None) -> Context:
    """Steps that this page does not take on its own: what they cost, and where to start them."""
    k = steps.named(state.at)
    return {
        "steps": steps.in_words(k).capitalize(),
        "millions": f"{run.model.n_parameters / 1e6:,.0f}",
        "passes": numbers.count(3 * k + 1),
        "cost": of_passes(run, 3 * k + 1),
        "url": state.replace(steps=max(k, 1)).change().url(LEARN) + "&go=1",
        "form": form(state, address, None) if address else None,
    }


def form(state: State, address: Address, rate: Rate | None) -> Context:
    """Asks for other steps of the same place. `rate` is the one in use, if it is known without work."""
    learning = {"eta", "optimizer", "steps"}
    kept = [(name, value) for name, value in state.page_query if name not in learning]
    kept += [("at", str(steps.before(address)))]
    kept += [pair for pair in state.view_query if pair[0] not in ("offset", "nudge")]
    k = address.step or 1
    return {
        "hidden": kept,
        "eta": "" if state.eta is None else written(state.eta),
        "measured": numbers.full(rate.eta, 6) if rate else "measured",
        "is_adamw": state.optimizer == "adamw",
        "steps": k,
        "most": MOST_STEPS,
        "learn": state.replace(steps=max(k, 1), at="", trail=()).url(LEARN),
    }


def _way(run: Run, address: Address, k: int, e: Explanation) -> Picture | None:
    if k < CHART_FROM:
        return None
    if e.kind == "update" and e.n_terms == k + 1 and run.rate.optimizer == "sgd":
        moved = np.concatenate([[0.0], np.cumsum(e.products[1:])])  # its terms are the steps
    else:
        at = [float(run.values(str(replace(address, quantity=f"step({j})" if j else "")))) for j in range(k + 1)]
        moved = np.asarray(at) - at[0] if np.isfinite(at).all() else np.full(k + 1, np.nan)
    if not np.isfinite(moved).all() or not moved.any():
        return None
    label = f"How far the number has moved after each of {k} steps; in the end by {signed(float(moved[-1]))}."
    return chart(f"How far it has moved after each of the {k} steps", charts.by_step(moved, label))


def _more(run: Run, address: Address) -> list[tuple[str, str]]:
    """The addresses of other quantities in the same step's run."""
    names = {"Its slope there": "grad"}
    if run.model.graph[address.site].is_parameter and run.rate.optimizer == "adamw":
        names |= {"AdamW’s m": "m", "AdamW’s v": "v"}
    return [(name, str(replace(address, quantity=f"{kind}({address.step or 0})"))) for name, kind in names.items()]


# -- formulas


def formula(e: Explanation, address: Address, rate: Rate) -> str:
    """The update of one weight, with its place's own slope; AdamW's averages."""
    if address.kind in ("m", "v"):
        return moment_formula(address.kind, address.step or 0)
    return e.formula.partition(r" \quad (")[0]


def moment_formula(moment: str, k: int) -> str:
    """AdamW's running average after k steps as the sum that it is."""
    beta, slope = (r"\beta_1", r"g_j") if moment == "m" else (r"\beta_2", r"g_j^2")
    return rf"{moment}_{{{k}}} = (1 - {beta}) \sum_{{j=0}}^{{{k - 1}}} {beta}^{{{k - 1}-j}}\,{slope}"


# -- words


def sentence(run: Run, node: Node, address: Address, e: Explanation) -> str:
    """What happened to the number; {t3} is the token at position 3."""
    k, rate = address.step or 0, run.rate
    if address.kind == "m":
        return f"AdamW steps along this: a running average of the {_of(k)}, at each step 90 % kept and 10 % new."
    if address.kind == "v":
        return f"AdamW divides by the root of this: a running average of the {_of(k)} squared, 99.9 % kept, 0.1 % new."
    if not node.is_parameter:
        return f"The same place in the run after {steps.in_words(k)}. {e.plain}"
    if k == 0:
        return "The weight as it was before the first step."
    if rate.optimizer == "sgd":
        each = "Its step" if k == 1 else f"Each of the {k} steps"
        return f"{each} took η × its slope off the weight: downhill for the loss. η is {numbers.full(rate.eta, 6)}."
    return (
        f"The step takes a little off for decay, then η × m̂ ÷ √v̂: AdamW moves a weight by about η, "
        f"{numbers.full(rate.eta, 6)}, however small its slope."
    )


def _of(k: int) -> str:
    return "first step’s slope" if k == 1 else f"{k} steps’ slopes"
