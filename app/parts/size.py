"""How many parameters: the rule of thumb, and beside it the exact counts of the models that are here."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from app.parts import base
from app.parts.base import Part, Scene
from model.arch.base import Config


@dataclass(frozen=True)
class Preset:
    """A published shape."""

    name: str
    d: int
    blocks: int
    vocabulary: int
    context: int


PRESETS = (
    Preset("GPT-2 small", 768, 12, 50257, 1024),
    Preset("GPT-2 medium", 1024, 24, 50257, 1024),
    Preset("GPT-2 large", 1280, 36, 50257, 1024),
    Preset("GPT-2 XL", 1600, 48, 50257, 1024),
    Preset("GPT-3", 12288, 96, 50257, 2048),
)


class Settings(base.Settings):
    """The shape."""

    d: int = Field(12288, ge=1, le=100_000)
    blocks: int = Field(96, ge=1, le=10_000)
    vocabulary: int = Field(50257, ge=1, le=10_000_000)
    context: int = Field(2048, ge=1, le=10_000_000)


@dataclass(frozen=True)
class Loaded:
    """A model that is here, in expressions: the rule's count, what its tensors hold, how far off the rule is."""

    shape: Preset
    estimate: str
    exact: str
    apart: str
    four: bool


@dataclass(frozen=True)
class View:
    """Counts as expressions. `in_ffn` is the share of all parameters that lies in feed-forward networks."""

    attention: str
    feed_forward: str
    block: str
    all_blocks: str
    embeddings: str
    positions: str
    total: str
    in_ffn: str
    presets: tuple[Preset, ...]
    loaded: list[Loaded]


def view(scene: Scene, s: Settings) -> View:
    loaded = []
    for entry in scene.services.models:
        c = entry.config
        shape = Preset(entry.name, c.d_model, c.n_layer, c.d_vocab, c.n_ctx)
        rule, all_of_it = total(shape), exact(c)
        loaded.append(Loaded(shape, rule, all_of_it, f"({rule})/({all_of_it})-1", c.d_mlp == 4 * c.d_model))
    blocks, embeddings, positions = f"12*{s.d}*{s.d}*{s.blocks}", f"{s.vocabulary}*{s.d}", f"{s.context}*{s.d}"
    whole = f"{blocks}+{embeddings}+{positions}"
    return View(
        f"4*{s.d}*{s.d}", f"8*{s.d}*{s.d}", f"12*{s.d}*{s.d}", blocks, embeddings, positions, whole,
        f"8*{s.d}*{s.d}*{s.blocks}/({whole})", PRESETS, loaded,
    )  # fmt: skip


def total(shape: Preset) -> str:
    """12d² a block, and the two tables."""
    d = shape.d
    return f"12*{d}*{d}*{shape.blocks}+{shape.vocabulary}*{d}+{shape.context}*{d}"


def exact(c: Config) -> str:
    """Every tensor of a model counted: the tables; in each block attention, the feed-forward network, their biases and
    two norms; one norm at the end.
    """
    d, m = c.d_model, c.d_mlp
    block = f"4*{d}*{d}+4*{d}+2*{d}*{m}+{m}+{d}+4*{d}"
    return f"{c.d_vocab}*{d}+{c.n_ctx}*{d}+{c.n_layer}*({block})+2*{d}"


PART = Part(
    "size", "Count the parameters", Settings, view, home="transformer#count", rem=40,
    about="Parameters of any shape by the rule of thumb, with the exact counts of the models that are here.",
)  # fmt: skip
