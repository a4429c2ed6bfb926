"""Lesson 2: the math inside a transformer. What its prose claims about the reader's run is measured here."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from app.features.lessons.base import Lesson, Section
from app.parts.aim import Aim, aim, chance_of_first, cost
from app.parts.attention import pair_of, share, without_root
from app.parts.base import Scene, View
from app.parts.expressions import slope_size
from app.server.process import is_large
from model import Run


def facts(scene: Scene) -> View:
    """What the prose says of this run: of scores and costs, and in parts of their own of one match and of one step.

    `top` and `runner` are the likeliest tokens, `surprises` are positions of tokens that cost
    most. `other` is the likeliest wrong answer. `step` is None on a model so large that no step is taken unasked.
    """
    run, last = scene.run, scene.last
    top, runner = (token for token, _ in run.top(2))
    goal = aim(run)
    wrong = [token for token, _ in run.top(4, goal.t) if token != goal.token][:3]
    p = run.tensor("probs")[goal.t]
    costs = run.tensor("loss_per_token")[:last].numpy().astype(np.float64)
    return View(
        last=last,
        top=top,
        runner=runner,
        match=match(scene),
        product=chance_of_first(scene.num, last, float(costs.sum()), css="num live") if last else Markup(""),
        surprises=[int(t) + 1 for t in np.argsort(-costs, kind="stable")[:2]],
        aim=goal,
        cost=cost(run, goal.t, goal.token),
        other=wrong[0],
        other_cost=cost(run, goal.t, wrong[0]),
        is_dearer=bool(p[wrong[0]] < p[goal.token]),
        others=wrong,
        back=back(run),
        step=None if is_large(scene.model.n_parameters) else one_step(run, goal),
    )


def match(scene: Scene) -> View:
    """What the prose says of one query and one key: the strongest look back from the last token, or a token at itself.

    `climbs` and `falls` are expressions, `others` other keys. `is_target`: the key is of the very token that the reader
    set as target. `best` and `second` are the positions of the best two keys, `plain` and `divided` expressions of the
    best one's weight without and with √d, `ratios` of how often it counts against the second.
    """
    run, pair = scene.run, pair_of(scene)
    raw = pair.raw(run)
    order = [int(k) for k in np.argsort(-raw, kind="stable")]
    best, second = order[0], order[1] if len(order) > 1 else None
    at = pair.at("qk", best)
    gap = f"{at}-{pair.at('qk', second)}" if second is not None else "0"
    plain, divided = without_root(pair.row, at), pair.at("pattern", best)
    climbs, falls = pair.halves
    others = [k for k in ([0] if scene.state.bos else []) + order if k != pair.k]
    return View(
        pair=pair,
        products=[f"{pair.query}*{pair.key}".replace(":]", f"{i}]") for i in range(min(3, scene.model.config.d_head))],
        climbs=climbs,
        falls=falls,
        others=list(dict.fromkeys(others))[:2],
        is_earlier=pair.k < pair.q,
        is_target=run.tokens[pair.k] == run.target and not run.is_sequence,
        best=best,
        second=second,
        gap=gap,
        ratios=(f"exp({gap})", f"exp(({gap})/sqrt({scene.model.config.d_head}))"),
        plain=share(scene.num, plain, "num live"),
        divided=divided,
        moves=(f"({plain})*(1-{plain})", f"{divided}*(1-{divided})"),
        evens=float(run.values(divided)) < float(1 / np.exp(raw - raw.max()).sum()),
    )


def back(run: Run) -> View:
    """The slope's size where the first block begins and after the last one, as expressions, and whether it grew."""
    first, last = "blocks.0.resid_pre", f"blocks.{run.model.config.n_layer - 1}.resid_post"
    sizes = [float(run.gradient(site).norm()) for site in (first, last)]
    ratio = f"{slope_size(first)}/{slope_size(last)}" if sizes[1] else "0"
    return View(first=slope_size(first), last=slope_size(last), ratio=ratio, grows=sizes[0] >= sizes[1])


def one_step(run: Run, goal: Aim) -> View:
    """What a step of the usual η does, really taken: whether the loss and the right token's probability got better."""
    before, after = (float(run.values(at)) for at in ("loss", "loss.step(1)"))
    p0, p1 = (float(run.values(at)) for at in (goal.probability, f"{goal.probability}.step(1)"))
    return View(lower=after < before, same=after == before, finite=math.isfinite(after), likelier=p1 > p0)


LESSON = Lesson(
    name="math",
    number=2,
    title="The math inside a transformer",
    lead="A transformer uses little mathematics: multiply and add, exponentials, a logarithm, and slopes. "
    "You will see all of it at work on your own sentence, from one product of two numbers to a step of learning.",
    sections=(
        Section("dot", "Dot products", (("sign", "Agree or disagree"),)),
        Section(
            "scores", "Scores into probabilities", (("softmax", "Softmax"), ("divide", "The same inside attention"))
        ),
        Section(
            "logs",
            "Why logs",
            (("product", "A product becomes a sum"), ("scale", "The log scale"), ("loss", "The loss")),
        ),
        Section(
            "derivatives",
            "Derivatives",
            (("nudge", "Nudge and divide"), ("every-slope", "Every score’s slope at once")),
        ),
        Section(
            "backpropagation",
            "Backpropagation",
            (("pull", "A pull from every word"), ("blocks", "Back through every block")),
        ),
        Section("learning", "Learning", (("steps", "A real step, and ten"),)),
    ),
    facts=facts,
    target=" Mary",
)
