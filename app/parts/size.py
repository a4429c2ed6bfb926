"""How many parameters: the rule of thumb, and beside it the exact counts of the models that are here."""

from __future__ import annotations

from pydantic import Field

from app.parts.base import Scene, Settings, View, live_part
from model.arch.base import Config

# What each published model sets: d, blocks, vocabulary, context.
PRESETS = {
    "GPT-2 small": (768, 12, 50257, 1024),
    "GPT-2 medium": (1024, 24, 50257, 1024),
    "GPT-2 large": (1280, 36, 50257, 1024),
    "GPT-2 XL": (1600, 48, 50257, 1024),
    "GPT-3": (12288, 96, 50257, 2048),
}


@live_part("Count the parameters", home="transformer#count", rem=40)
class Size(Settings):
    """Parameters of any shape by the rule of thumb, with the exact counts of the models that are here."""

    d: int = Field(12288, ge=1, le=100_000)
    blocks: int = Field(96, ge=1, le=10_000)
    vocabulary: int = Field(50257, ge=1, le=10_000_000)
    context: int = Field(2048, ge=1, le=10_000_000)

    def view(self, scene: Scene) -> View:
        """`presets` are names with the settings that each stands for, `loaded` are models that are here."""
        return View(
            total=rule(self),
            presets=[(name, dict(zip(Size.model_fields, shape, strict=True))) for name, shape in PRESETS.items()],
            loaded=[model(entry.name, entry.config) for entry in scene.services.models],
        )


def model(name: str, c: Config) -> View:
    """A model in expressions: the rule's count, what its tensors hold, how far off the rule is."""
    shape = Size(d=c.d_model, blocks=c.n_layer, vocabulary=c.d_vocab, context=c.n_ctx)
    estimate, count = rule(shape), exact(c)
    apart, settings = f"({estimate})/({count})-1", shape.model_dump()
    return View(
        name=name, settings=settings, estimate=estimate, exact=count, apart=apart, four=c.d_mlp == 4 * c.d_model
    )


def rule(shape: Size) -> str:
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
