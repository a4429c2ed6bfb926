"""The page of learning: what a job found, as words, charts and tables in which every number leads on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby

from markupsafe import Markup

from app.learned import Learned
from app.present import charts, numbers
from app.present.learn_charts import Line, LogAxis, along_slope, by_step
from app.present.tokens import token_html, token_text
from app.present.why_numbers import exact
from app.urls import Cells, State
from model import Run
from model.address import MAX_LENGTH, MAX_SIGNS

MOST_LINES = 5
ALL_STEPS = 20  # up to so many steps the table lists every one; beyond, later ones by fives
PATH = "/learn"
LINES = ("line-2", "line-3", "line-4", "line-5", "line-5")

# What a block's parameters are called together.
PARTS = {"attn": "attention", "mlp": "feed-forward", "ln1": "norms", "ln2": "norms"}


@dataclass(frozen=True)
class Point:
    """One η of the curve. `loss` leads to the loss after one such step; up the slope there is no such step."""

    eta: Markup
    loss: Markup
    is_chosen: bool


@dataclass(frozen=True)
class StepRow:
    """The numbers after some steps: the loss, its change, and each followed token's probability."""

    steps: int
    loss: Markup
    change: Markup
    probabilities: tuple[Markup, ...]


@dataclass(frozen=True)
class ShareRow:
    """One token's probability before and after all steps."""

    token: Markup
    before: Markup
    after: Markup
    change: Markup
    bar: Markup
    is_target: bool


@dataclass(frozen=True)
class MovedRow:
    """How far the weights of one part went."""

    block: str
    words: str
    bar: Markup
    one: Markup
    all: Markup


@dataclass(frozen=True)
class LearnView:
    """All that `parts/_learn_results.html` shows of a finished job."""

    eta: str
    is_adamw: bool
    steps: int
    verdict: Markup
    curve: Markup
    curve_says: tuple[Markup, ...]
    points: tuple[Point, ...]
    losses: Markup
    probabilities: Markup
    steps_say: Markup
    tokens: tuple[Markup, ...]
    rows: tuple[StepRow, ...]
    shares: tuple[ShareRow, ...]
    shares_say: Markup
    rest: Markup
    n_rest: int
    axis: Markup
    moved: tuple[MovedRow, ...]
    moved_says: Markup


class Show:
    """What the parts of the page share: the run, the result, and links to its numbers."""

    def __init__(self, run: Run, state: State, learned: Learned) -> None:
        self.run, self.state, self.learned = run, state, learned
        self.cells, self.last, self.k = Cells(state), run.n_pos - 1, learned.steps
        self.is_long = self.cells.as_buttons
        self.short = Cells(state)  # where there are many numbers, or their addresses are long
        self.short.as_buttons = True

    def loss(self, j: int, *, live: bool = False) -> Markup:
        cells = self.cells if live else self.short
        return cells.number(after("loss", j), exact(self.learned.losses[j]), css="num live" if live else "num")

    def probability(self, token: int, p: float, j: int, *, live: bool = False) -> Markup:
        at = after(f"probs[{self.last},{token}]", j)
        cells = self.cells if live else self.short
        return cells.number(at, numbers.percent(p), css="num live" if live else "num")

    def token(self, token: int) -> Markup:
        return token_html(self.run.model.tokenizer, token)


def learn_view(run: Run, state: State, learned: Learned) -> LearnView:
    """`run` learns in the way that `state` says."""
    show = Show(run, state, learned)
    curve, says = _curve(show)
    moved, axis, moved_says = _moved(show)
    shares, rest = _shares(show)
    return LearnView(
        eta=numbers.full(learned.rate.eta, 6),
        is_adamw=learned.rate.optimizer == "adamw",
        steps=learned.steps,
        verdict=_verdict(show),
        curve=curve,
        curve_says=says,
        points=tuple(_points(show)),
        losses=by_step(
            [Line("loss", learned.losses, "total")], None, None, f"The loss after each of {learned.steps} steps"
        ),
        probabilities=_probabilities(show),
        steps_say=_steps_say(show),
        tokens=tuple(show.token(token) for token in learned.tokens),
        rows=tuple(_rows(show)),
        shares=tuple(shares),
        shares_say=_shares_say(show),
        rest=rest,
        n_rest=run.model.config.d_vocab - len(learned.changes),
        axis=axis,
        moved=moved,
        moved_says=moved_says,
    )


def after(at: str, j: int) -> str:
    """The address of a number after j steps."""
    return f"{at}.step({j})" if j else at


def difference(later: str, earlier: str) -> str:
    return f"calc({later}-{earlier})"


# -- in one sentence


def _verdict(show: Show) -> Markup:
    learned, k = show.learned, show.k
    parts = [_did(show, 1, "One step")]
    if k > 1:
        parts.append(_did(show, k, f"{k} steps"))
    if not show.run.is_sequence and all(map(math.isfinite, learned.losses)):
        target = show.run.target
        column = learned.tokens.index(target)
        before, later = learned.probabilities[0][column], learned.probabilities[k][column]
        parts.append(
            Markup("The probability of {} goes from {} to {}.").format(
                show.token(target),
                show.probability(target, before, 0, live=True),
                show.probability(target, later, k, live=True),
            )
        )
    return Markup(" ").join(parts)


def _did(show: Show, j: int, who: str) -> Markup:
    """What j steps did to the loss, as measured."""
    before, later = show.learned.losses[0], show.learned.losses[j]
    s = "s" if j == 1 else ""
    start, end = show.loss(0, live=True), show.loss(j, live=True)
    if not math.isfinite(later):
        return Markup("{} of this size break{} the network: the loss is {}.").format(who, s, end)
    if later == before:
        return Markup("{} leave{} the loss at {}.").format(who, s, end)
    word = "lower" if later < before else "raise"
    if j == 1:
        return Markup("{} {}s the loss from {} to {}.").format(who, word, start, end)
    return Markup("{} {} it to {}.").format(who, word, end)


# -- the loss along the slope


def _curve(show: Show) -> tuple[Markup, tuple[Markup, ...]]:
    learned, state = show.learned, show.state
    is_sgd = learned.rate.optimizer == "sgd"
    chosen = learned.rate.eta if is_sgd else None

    def link(eta: float) -> str:
        return "" if show.is_long else replace(state, at="", eta=eta, optimizer="sgd").url(PATH)

    picture = along_slope(
        learned.etas,
        learned.curve,
        chosen,
        learned.steepness,
        link,
        f"The loss at {len(learned.etas)} places along the slope, on both sides of the weights as they are",
    )
    return picture, tuple(_curve_says(show))


def _curve_says(show: Show) -> list[Markup]:
    learned = show.learned
    says = []
    finite = [(loss, eta) for eta, loss in zip(learned.etas, learned.curve, strict=True) if math.isfinite(loss)]
    if learned.rate.eta == 0:
        return [Markup("With η = 0 no weight moves, so there is no curve to draw.")]
    if not finite:
        return [Markup("None of these losses is a number.")]
    start = learned.curve[learned.etas.index(0.0)]
    lowest, where = min(((loss, eta) for loss, eta in finite if eta > 0), default=(math.inf, 0.0))
    if lowest < start:
        which = "these losses" if lowest == min(finite)[0] else "the losses down the slope"
        number = _stepped(show.state, where, exact(lowest), "num live")
        says.append(
            Markup("The lowest of {} is {}, {}at η = {}{}.").format(
                which,
                number,
                "first " if sum(loss == lowest for loss, eta in finite if eta > 0) > 1 else "",
                numbers.full(where, 3),
                "" if where < learned.etas[-1] else Markup(", the farthest point drawn"),
            )
        )
    else:
        says.append(Markup("No step down the slope that is drawn here lowers the loss."))
    if learned.rate.optimizer == "adamw":
        says.append(
            Markup(
                "AdamW does not go straight along the slope, so its steps lie beside this line; the marks are for SGD."
            )
        )
        return says
    promised = learned.losses[0] - learned.rate.eta * learned.steepness
    at = _promise_of(show.run, learned.rate.eta)
    if math.isfinite(promised) and math.isfinite(learned.losses[1]) and at:
        says.append(
            Markup("At the chosen η the straight line promises {}; the network really has {}.").format(
                show.cells.number(at, exact(promised), css="num live"), show.loss(1, live=True)
            )
        )
        if promised < 0:
            says.append(Markup("A loss cannot be negative: the straight line holds only near η = 0."))
    return says


def _promise_of(run: Run, eta: float) -> str:
    """The address of what the slope alone promises of one step; "" where it would be longer than an address may be."""
    names = [node.name for node in run.model.graph.parameters if node.name != "W_U"]
    at = f"calc(loss-{eta!r}*({'+'.join(f'sum({name}.grad*{name}.grad)' for name in names)}))"
    return at if len(at) < MAX_LENGTH and 2 * len(names) + 2 < MAX_SIGNS else ""


def _points(show: Show) -> list[Point]:
    learned = show.learned
    found = []
    for eta, loss in zip(learned.etas, learned.curve, strict=True):
        text = exact(loss)
        choose, number = Markup(numbers.full(eta, 4)), Markup('<span class="muted">{}</span>').format(text)
        if eta == 0:
            number = show.cells.number("loss", text)
        elif eta > 0:
            choose = Markup('<button form="try" name="eta" value="{}" class="num">{}</button>').format(
                repr(eta), choose
            )
            if not show.is_long:
                number = _stepped(show.state, eta, text, "num")
        found.append(Point(choose, number, learned.rate.optimizer == "sgd" and eta == learned.rate.eta))
    return found


def _stepped(state: State, eta: float, text: str, css: str) -> Markup:
    """The loss after one step at another η: a link of its own, since the page's form carries the page's η."""
    url = replace(state, eta=eta, optimizer="sgd").select("loss.step(1)").url()
    return Markup('<a class="{}" href="{}">{}</a>').format(css, url, text)


# -- step by step


def _probabilities(show: Show) -> Markup:
    learned, tokenizer = show.learned, show.run.model.tokenizer
    lines = []
    for n, token in enumerate(learned.tokens[:MOST_LINES]):
        values = tuple(100 * row[n] for row in learned.probabilities)
        is_target = not show.run.is_sequence and token == show.run.target
        lines.append(Line(token_text(tokenizer, token), values, "total" if is_target else LINES[n]))
    return by_step(lines, 0.0, None, "The probabilities of the likeliest next tokens after each step", unit=" %")


def _steps_say(show: Show) -> Markup:
    """Where a step did not lower the loss: counted, not promised."""
    losses = show.learned.losses
    raised = [j + 1 for j in range(show.k) if not losses[j + 1] <= losses[j]]
    same = [j + 1 for j in range(show.k) if losses[j + 1] == losses[j] != 0]
    ended = next((j for j in range(show.k) if losses[j] == losses[j + 1] == 0), None)
    says = []
    if raised:
        says.append(Markup("{} did not lower the loss: η is large for this place.").format(_steps_named(raised)))
    if same:
        says.append(Markup("{} left the loss as it was.").format(_steps_named(same)))
    if ended is not None:
        when = Markup("After step {} the").format(ended) if ended else Markup("The")
        says.append(Markup("{} loss is 0 to float32’s last digit and cannot fall further.").format(when))
    if not says:
        return Markup("Each step lowers the loss." if show.k > 1 else "")
    return Markup(" ").join(says)


def _steps_named(steps: list[int]) -> str:
    which = ", ".join(map(str, steps[:6])) + (" and later ones" if len(steps) > 6 else "")
    return f"{'Step' if len(steps) == 1 else 'Steps'} {which}"


def _rows(show: Show) -> list[StepRow]:
    learned = show.learned
    found = []
    for j, (loss, row) in enumerate(zip(learned.losses, learned.probabilities, strict=True)):
        if show.k > ALL_STEPS and not (j <= ALL_STEPS // 2 or j % 5 == 0 or j == show.k):
            continue
        change = Markup("")
        if j:
            at = difference(after("loss", j), after("loss", j - 1))
            change = show.short.number(at, signed(loss - learned.losses[j - 1]))
        probabilities = (show.probability(token, p, j) for token, p in zip(learned.tokens, row, strict=True))
        found.append(StepRow(j, show.loss(j), change, tuple(probabilities)))
    return found


def signed(x: float, digits: int = 4) -> str:
    """With a plus where it is one."""
    text = numbers.value(x, digits)
    return f"+{text}" if x > 0 else text


def points(x: float) -> str:
    """A change of probability in percentage points."""
    text = numbers.fixed(100 * x, 2)
    return f"+{text}" if x > 0 and text.strip("0.") else text


# -- where the share came from


def _shares(show: Show) -> tuple[list[ShareRow], Markup]:
    learned, k = show.learned, show.k
    most = charts.largest([change.after - change.before for change in learned.changes])
    rows = []
    for c in learned.changes:
        at = f"probs[{show.last},{c.token}]"
        rows.append(
            ShareRow(
                token=show.token(c.token),
                before=show.probability(c.token, c.before, 0),
                after=show.probability(c.token, c.after, k),
                change=show.short.number(difference(after(at, k), at), points(c.after - c.before)),
                bar=charts.signed_bar(c.after - c.before, most),
                is_target=not show.run.is_sequence and c.token == show.run.target,
            )
        )
    rest = -sum(c.after - c.before for c in learned.changes)
    terms = "".join(f"+probs[{show.last},{c.token}]-probs[{show.last},{c.token}].step({k})" for c in learned.changes)
    return rows, show.short.number(f"calc(0{terms})", points(rest))


def _shares_say(show: Show) -> Markup:
    """Who gave the most to the target, if it gained."""
    learned = show.learned
    if show.run.is_sequence:
        return Markup("The loss counts every position; these are the tokens after the last one.")
    target = next((c for c in learned.changes if c.token == show.run.target), None)
    if target is None or not target.after > target.before:
        return Markup("{} gained nothing here.").format(show.token(show.run.target))
    losers = [c for c in learned.changes if c.after < c.before]
    giver = min(losers, key=lambda c: c.after - c.before, default=None)
    if giver is None:
        return Markup("")
    return Markup("What {} gains, others lose: {} lost the most, {} points.").format(
        show.token(target.token),
        show.token(giver.token),
        show.cells.number(
            difference(f"probs[{show.last},{giver.token}]", after(f"probs[{show.last},{giver.token}]", show.k)),
            points(giver.before - giver.after).removeprefix("+"),
            css="num live",
        ),
    )


# -- how far the weights went


def _moved(show: Show) -> tuple[tuple[MovedRow, ...], Markup, Markup]:
    """A row for each block's part, and for each tensor outside the blocks."""
    graph = show.run.model.graph
    named = [(_block_of(name), _part_of(show.run, name), name) for name in show.learned.moved]
    groups: dict[tuple[str, str], list[str]] = {}
    for block, part, name in named:
        groups.setdefault((block, part), []).append(name)
    order = sorted(groups, key=lambda key: (_rank(key[0], graph.config.n_layer), list(groups).index(key)))
    sizes = {key: _together(show.learned.moved, groups[key]) for key in order}
    axis = LogAxis.over([size for pair in sizes.values() for size in pair])
    rows = []
    for block, keys in groupby(order, key=lambda key: key[0]):
        for n, key in enumerate(keys):
            one, every = sizes[key]
            rows.append(
                MovedRow(
                    block if n == 0 else "",
                    key[1],
                    axis.bars(one, every) if show.k > 1 else axis.bars(one),
                    show.short.number(_length_of(groups[key], 1), numbers.value(one)),
                    show.short.number(_length_of(groups[key], show.k), numbers.value(every)),
                )
            )
    return tuple(rows), axis.head(), _moved_says(order, sizes)


def _moved_says(order: list[tuple[str, str]], sizes: dict[tuple[str, str], tuple[float, float]]) -> Markup:
    key = max(order, key=lambda key: sizes[key][1])
    if not sizes[key][1] > 0:
        return Markup("No weight moved.")
    where = key[1] if key[0] == "outside" else f"the {key[1]} weights of {key[0]}"
    return Markup("The farthest way was that of {}.").format(where)


def _rank(block: str, n_layer: int) -> int:
    return -1 if block == "outside" else int(block.split()[1])


def _block_of(name: str) -> str:
    return f"block {name.split('.')[1]}" if name.startswith("blocks.") else "outside"


def _part_of(run: Run, name: str) -> str:
    node = run.model.graph[name]
    return PARTS.get(node.part, node.part) if node.block is not None else name if "." not in name else node.part


def _together(moved: dict[str, tuple[float, float]], names: list[str]) -> tuple[float, float]:
    one, every = zip(*(moved[name] for name in names), strict=True)
    return math.hypot(*one), math.hypot(*every)


def _length_of(names: list[str], k: int) -> str:
    """The address of how far these parameters went together in k steps."""
    parts = (f"sum(({name}.step({k})-{name})*({name}.step({k})-{name}))" for name in names)
    return f"calc(sqrt({'+'.join(parts)}))"
