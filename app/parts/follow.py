"""Every value of a model small enough for one page: the toy's one block on three words, site after site."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup
from pydantic import Field

from app.parts import base
from app.parts.base import Numbers, Part, Scene
from app.render import numbers
from app.request.state import State
from model import Run
from model.errors import SettingError

TOY = State(model="toy", text="the cat sat", bos=False)
LARGEST = 8  # entries of a row; a wider model's values do not fit a page
MOST = 6  # tokens
POSITIONS = ("pos", "query")

# (site, the parameters it is made with, what happens there)
STAGES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("embed", ("W_E",), "Each token picks its row of the table."),
    ("pos_embed", ("W_pos",), "Each position picks its row."),
    ("blocks.0.resid_pre", (), "The two rows added. This is the stream that the block reads and adds to."),
    ("blocks.0.ln1.mean", (), "Normalising begins: each row’s mean,"),
    ("blocks.0.ln1.var", (), "its variance,"),
    ("blocks.0.ln1.scale", (), "and the root of variance plus ε."),
    ("blocks.0.ln1.out", (), "The row normalised. (Here γ is 1 and β is 0.)"),
    ("blocks.0.attn.q", ("blocks.0.attn.W_Q", "blocks.0.attn.b_Q"), "What each position looks for, a query per head,"),
    ("blocks.0.attn.k", ("blocks.0.attn.W_K", "blocks.0.attn.b_K"), "what it can be matched on, a key,"),
    ("blocks.0.attn.v", ("blocks.0.attn.W_V", "blocks.0.attn.b_V"), "and what it hands over, a value."),
    ("blocks.0.attn.qk", (), "Every query with every key."),
    ("blocks.0.attn.scores", (), "Divided by √2, the future masked."),
    ("blocks.0.attn.pattern", (), "Softmax of each row: the weights."),
    ("blocks.0.attn.z", (), "The values averaged with these weights."),
    ("blocks.0.attn_out", ("blocks.0.attn.W_O", "blocks.0.attn.b_O"), "Both heads joined: attention’s update."),
    ("blocks.0.resid_mid", (), "Added to the stream."),
    ("blocks.0.ln2.mean", (), "Normalised again: mean,"),
    ("blocks.0.ln2.var", (), "variance,"),
    ("blocks.0.ln2.scale", (), "root,"),
    ("blocks.0.ln2.out", (), "and the normalised row."),
    ("blocks.0.mlp.pre", ("blocks.0.mlp.W_in", "blocks.0.mlp.b_in"), "Widened to eight: a match with each column."),
    ("blocks.0.mlp.post", (), "Bent: what is below zero becomes zero."),
    ("blocks.0.mlp_out", ("blocks.0.mlp.W_out", "blocks.0.mlp.b_out"), "Narrowed back to four: the second update."),
    ("blocks.0.resid_post", (), "Added to the stream. The block is done: same shape as before."),
    ("ln_final.mean", (), "One last normalisation: mean,"),
    ("ln_final.var", (), "variance,"),
    ("ln_final.scale", (), "root,"),
    ("ln_final.out", (), "and the final row, h."),
    ("logits", (), "One dot product with each token’s row of W_E: a score for every word."),
    ("probs", (), "Softmax: the guess for the next token, at every position."),
)


class Settings(base.Settings):
    """The token whose row is followed."""

    t: int = Field(2, ge=0)


@dataclass(frozen=True)
class Grid:
    """A matrix of linked numbers with the names of its rows; `name` says which head where there are several."""

    name: str
    columns: list[str]
    rows: list[tuple[Markup, bool, list[Markup]]]


@dataclass(frozen=True)
class Stage:
    site: str
    title: str
    says: str
    grids: list[Grid]
    weights: list[tuple[str, list[Grid]]]


@dataclass(frozen=True)
class View:
    """`borrowed` says that the page's own model is too large and the toy is shown."""

    t: int
    tokens: list[tuple[int, Markup]]
    stages: list[Stage]
    borrowed: bool
    guess: Markup
    guess_number: Markup
    after: Markup


def view(scene: Scene, s: Settings) -> View:
    c = scene.model.config
    fits = c.d_model <= LARGEST and c.n_layer == 1 and c.act == "relu" and scene.run.n_pos <= MOST
    num = scene.num if fits else scene.numbers_of(TOY)
    run = num.run
    if s.t >= run.n_pos:
        raise SettingError("t", f"There is no position {s.t}: this text's are 0 to {run.n_pos - 1}.", "Write t=0.")
    stages = [
        Stage(site, run.model.graph[site].title, says, grids_of(num, site, s.t),
              [(parameter, grids_of(num, parameter, None)) for parameter in parameters])
        for site, parameters, says in STAGES
    ]  # fmt: skip
    (best, _), *_ = run.top(1, s.t)
    return View(
        s.t, [(t, num.at(t)) for t in range(run.n_pos)], stages, not fits,
        num.token(best), num(f"probs[{s.t},{best}]", "percent"), num.at(s.t),
    )  # fmt: skip


def grids_of(num: Numbers, site: str, selected: int | None) -> list[Grid]:
    """A site or parameter as matrices: one, or one for each head. A row for each position, or a single row."""
    run = num.run
    axes, values = run.model.graph[site].axes, run.tensor(site).numpy()
    flat = [axis for axis in axes if axis != "head"]
    row_axis, column_axis = (
        (flat[0], flat[1]) if len(flat) == 2 else (flat[0], "") if flat == ["pos"] else ("", flat[0])
    )
    grids = []
    for head in range(values.shape[axes.index("head")]) if "head" in axes else [None]:
        part = values if head is None else values.take(head, axis=axes.index("head"))
        matrix = part if part.ndim == 2 else part[:, None] if row_axis else part[None, :]
        rows = []
        for r, row in enumerate(matrix.tolist()):
            cells = []
            for c, x in enumerate(row):
                place = {"head": head, row_axis: r, column_axis: c}
                address = f"{site}[{','.join(str(place[axis]) for axis in axes)}]"
                cells.append(num.shown(address, text(site, float(x))))
            followed = row_axis in POSITIONS and r == selected
            rows.append((place_name(num, row_axis, r), followed, cells))
        columns = [column_name(run, column_axis, c) for c in range(matrix.shape[1])]
        grids.append(Grid("" if head is None else f"head {head}", columns, rows))
    return grids


def text(site: str, x: float) -> str:
    """Weights are round; what is computed shows two decimals."""
    return f"{x:g}".replace("-", numbers.MINUS) if site.split(".")[-1][:2] in ("W_", "b_") else numbers.fixed(x, 2)


def place_name(num: Numbers, axis: str, n: int) -> Markup:
    """A row's name: its token where it is a position or a word of the vocabulary."""
    if axis in POSITIONS:
        return Markup('<span class="i">{}</span>{}').format(n, num.at(n))
    if axis == "d_vocab":
        return num.token(n)
    return Markup(str(n)) if axis else Markup("")


def column_name(run: Run, axis: str, n: int) -> str:
    show = run.model.tokenizer.show
    if axis == "key":
        return show(run.tokens[n])
    return show(n) if axis == "d_vocab" else str(n) if axis else ""


PART = Part(
    "follow", "Every number of one block", Settings, view, home="transformer#follow", rem=200, run=TOY,
    about="All the numbers of a block small enough for one page, every one of them clickable.",
)  # fmt: skip
