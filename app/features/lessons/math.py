"""Lesson 2: the math inside a transformer. What its prose claims about the reader's run is measured here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from app.features.lessons.base import Lesson, Section
from app.parts.base import Scene
from app.parts.math_aim import (
    Aim,
    Pair,
    aim,
    cost,
    pair,
    share,
    without_root,
)
from app.parts.math_dot import halves
from app.parts.math_surprise import product, sum_to
from app.parts.stream import length
from app.render.numbers import count
from app.server.size import is_large
from model import Run


@dataclass(frozen=True)
class Match:
    """What the prose says of one query and one key. `climbs` and `falls` are expressions, `others` other keys.

    `is_earlier`: the key stands before the query; `is_target`: it is the very token that the reader set as target.
    `best` and `second` are the positions of the best two keys, `plain` and `divided` expressions of the best one's
    weight without and with √d, `ratios` of how often it counts against the second.
    """

    pair: Pair
    products: tuple[str, ...]
    climbs: str
    falls: str
    others: tuple[int, ...]
    is_earlier: bool
    is_target: bool
    best: int
    second: int | None
    gap: str
    ratios: tuple[str, str]
    plain: Markup
    divided: str
    moves: tuple[str, str]
    evens: bool


@dataclass(frozen=True)
class Step:
    """What one real step does: its η, and whether the loss and the right token's probability got better."""

    eta: str
    lower: bool
    same: bool
    finite: bool
    likelier: bool


@dataclass(frozen=True)
class Facts:
    """What the prose says of this run. `top` and `runner` are the likeliest tokens, `mean` the mean score.

    `surprises` are positions of tokens that cost most. `other` is the likeliest wrong answer, `right` the right one's
    expressions. `step` is None on a model so large that no step is taken unasked.
    """

    last: int
    top: int
    runner: int
    mean: str
    gap: str
    ratio: str
    match: Match
    n_text: int
    product: Markup
    total: str
    surprises: tuple[int, ...]
    aim: Aim
    cost: str
    other: int
    other_cost: str
    is_dearer: bool
    is_sequence: bool
    others: tuple[int, ...]
    first_slope: str
    last_slope: str
    ratio_back: str
    grows: bool
    last_block: int
    step: Step | None
    d: int
    d_head: int
    d_mlp: int
    n_layer: int
    vocab: int
    n_parameters: int


def facts(scene: Scene) -> Facts:
    run, c, last = scene.run, scene.model.config, scene.last
    best = [token for token, _ in run.top(4)]
    goal = aim(run)
    ranked = [token for token, _ in run.top(4, goal.t)]
    wrong = tuple(token for token in ranked if token != goal.token)[:3]
    p = run.tensor("probs")[goal.t]
    costs = run.tensor("loss_per_token")[:last].numpy().astype(np.float64)
    first, end = "blocks.0.resid_pre", f"blocks.{c.n_layer - 1}.resid_post"
    sizes = [float(run.gradient(site).norm()) for site in (first, end)]
    first_slope, last_slope = length(f"{first}[:,:].grad"), length(f"{end}[:,:].grad")
    gap = f"logits[{last},{best[0]}]-logits[{last},{best[1]}]"
    return Facts(
        last=last,
        top=best[0],
        runner=best[1],
        mean=f"sum(logits[{last},:])/{c.d_vocab}",
        gap=gap,
        ratio=f"exp({gap})",
        match=match(scene),
        n_text=last,
        product=product(scene, last, float(costs.sum()), css="num live") if last else Markup(""),
        total=sum_to(last) if last else "",
        surprises=tuple(int(t) + 1 for t in np.argsort(-costs, kind="stable")[:2]),
        aim=goal,
        cost=cost(run, goal.t, goal.token),
        other=wrong[0],
        other_cost=cost(run, goal.t, wrong[0]),
        is_dearer=bool(p[wrong[0]] < p[goal.token]),
        is_sequence=run.is_sequence,
        others=wrong,
        first_slope=first_slope,
        last_slope=last_slope,
        ratio_back=f"{first_slope}/{last_slope}" if sizes[1] else "0",
        grows=sizes[0] >= sizes[1],
        last_block=c.n_layer - 1,
        step=one_step(run, goal) if not is_large(scene.model.n_parameters) else None,
        d=c.d_model,
        d_head=c.d_head,
        d_mlp=c.d_mlp,
        n_layer=c.n_layer,
        vocab=c.d_vocab,
        n_parameters=scene.model.n_parameters,
    )


def match(scene: Scene) -> Match:
    """The strongest look back from the last token, or of a single token at itself."""
    run, two = scene.run, pair(scene)
    raw = run.tensor(two.site("qk"))[two.head, two.q, : two.q + 1].numpy().astype(np.float64)
    order = [int(k) for k in np.argsort(-raw, kind="stable")]
    best, second = order[0], order[1] if len(order) > 1 else None
    at = two.at("qk", best)
    gap = f"{at}-{two.at('qk', second)}" if second is not None else "0"
    root = f"sqrt({scene.model.config.d_head})"
    plain, divided = without_root(two.row, at), two.at("pattern", best)
    a = np.exp(raw - raw.max())
    weight = float(run.tensor(two.site("pattern"))[two.head, two.q, best])
    climbs, falls = halves(two)
    others = [k for k in (0 if scene.state.bos else None, *order) if k is not None and k != two.k]
    products = tuple(f"{two.query}*{two.key}".replace(":]", f"{i}]") for i in range(min(3, scene.model.config.d_head)))
    return Match(
        pair=two,
        products=products,
        climbs=climbs,
        falls=falls,
        others=tuple(dict.fromkeys(others))[:2],
        is_earlier=two.k < two.q,
        is_target=run.tokens[two.k] == run.target and not run.is_sequence,
        best=best,
        second=second,
        gap=gap,
        ratios=(f"exp({gap})", f"exp(({gap})/{root})"),
        plain=share(scene.num, plain, "num live"),
        divided=divided,
        moves=(f"({plain})*(1-{plain})", f"{divided}*(1-{divided})"),
        evens=weight < float(1 / a.sum()),
    )


def one_step(run: Run, goal: Aim) -> Step:
    """A step of the usual η, really taken."""
    before, after = (float(run.values(at)) for at in ("loss", "loss.step(1)"))
    p0, p1 = (float(run.values(at)) for at in (goal.probability, f"{goal.probability}.step(1)"))
    return Step(f"{run.rate.eta:g}", after < before, after == before, math.isfinite(after), p1 > p0)


def glossary(scene: Scene) -> list[tuple[str, str, str]]:
    """Every symbol of the lesson, and its shape in this run."""
    c, n = scene.model.config, scene.run.n_pos
    vocabulary = count(c.d_vocab)
    return [
        (r"q,\ k", "query and key of one position in one head", f"{c.d_head}"),
        (r"q \cdot k", "dot product: entries multiplied, products added", "one number"),
        (r"d", "entries of a query and a key; √d divides the scores", f"{c.d_head}"),
        (r"s", "scores of one query with every key so far", f"{n}"),
        (r"a", "weights: the softmax of scores", f"{n}"),
        (r"E", "embedding table: a row for each word", f"{vocabulary} × {c.d_model}"),
        (r"e_v", "the row of word v", f"{c.d_model}"),
        (r"h", "the last position’s final row", f"{c.d_model}"),
        (r"z", "scores of all words, called logits", vocabulary),
        (r"p", "probabilities of all words", vocabulary),
        (r"y", "the right answer: 1 for one word, 0 for all others", vocabulary),
        (r"L", "loss: −log p of the right answer", "one number"),
        (r"h,\ \frac{\Delta L}{h}", "in section 4: a nudge, and the slope of a secant", "one number"),
        (r"\frac{\partial L}{\partial x}", "slope of the loss along x, or gradient", "the shape of x"),
        (r"\theta", "all weights together", count(scene.model.n_parameters)),
        (r"\eta", "the size of a learning step", "one number"),
    ]


LESSON = Lesson(
    name="math",
    number=2,
    title="The math inside a transformer",
    lead="A transformer uses little mathematics: multiply and add, exponentials, a logarithm, and slopes. "
    "You will see all of it at work on your own sentence, from one product of two numbers to a step of learning.",
    sections=(
        Section("dot", "Dot products", (("sign", "Agree or disagree"),)),
        Section(
            "scores",
            "Scores into probabilities",
            (("softmax", "Softmax"), ("divide", "The same inside attention")),
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
    glossary=glossary,
    target=" Mary",
)
