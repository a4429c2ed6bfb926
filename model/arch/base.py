"""What a network is made of, whatever its architecture: axes, named tensors, and the sizes that every config has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from model.errors import CheckpointError
from model.ops.linear import View
from model.ops.op import Op


@dataclass(frozen=True)
class Axis:
    """What a dimension of a tensor runs over.

    word     what one of its places is called
    meaning  what one of its places is; {size} is how many there are; `predicted` where those are guesses
    is_text  whether it runs over the positions of a text, and is as long as that
    tokens   whose tokens stand at its places: the text's, or the vocabulary's
    whose    the word where entries of several kinds stand side by side
    """

    name: str
    word: str
    meaning: str
    is_text: bool = False
    tokens: Literal["", "text", "vocabulary"] = ""
    predicted: str = ""
    whose: str = ""


AXES = {
    axis.name: axis
    for axis in (
        Axis("pos", "position", "a token read", is_text=True, tokens="text"),
        Axis("query", "query", "a token read, as the query that looks", is_text=True, tokens="text"),
        Axis("key", "key", "a token read, as the key that is looked at", is_text=True, tokens="text"),
        Axis("head", "head", "a head"),
        Axis("kv_head", "key-value head", "a head of keys and values"),
        Axis("d_head", "entry", "one of the {size} entries of a head’s vector", whose="head entry"),
        Axis("d_model", "entry", "one of the {size} entries of the residual stream", whose="stream entry"),
        Axis("d_mlp", "neuron", "one of the {size} neurons"),
        Axis(
            "d_vocab",
            "token",
            "one of {size} known tokens",
            tokens="vocabulary",
            predicted="one of the {size} tokens that may come next",
        ),
        Axis("n_ctx", "position", "one of the {size} positions there can be", tokens="text"),
    )
}
ATTENTION = ("head", "query", "key")  # the axes of one number for each two tokens, in every head
HEADS = ("head", "kv_head")


def stacked_axis(axes: Sequence[str]) -> int:
    """The axis of three that tells tables apart, such as that of heads: the first that does not run over a text."""
    return next(n for n, axis in enumerate(axes) if not AXES[axis].is_text)


def axis_words(axes: Sequence[str]) -> tuple[str, ...]:
    """What axes are called side by side: where two kinds of entries meet, they say whose they are."""
    found = [AXES[axis] for axis in axes]
    meet = len({axis.whose for axis in found} - {""}) > 1
    return tuple(axis.whose if meet and axis.whose else axis.word for axis in found)


@dataclass(frozen=True)
class Stage:
    """One step in a row of steps, such as from scores to weights.

    row     the row's title; it holds the nodes that say so whose names differ in the last piece alone
    words   what the step is called there, `how` how it is made
    sign    what stands before it: "→", "+"
    prefix  the front of the row's names, if not the front of the node's own
    """

    row: str
    words: str
    sign: str = ""
    how: str = ""
    prefix: str | None = None


@dataclass(frozen=True)
class Node:
    """One named tensor, made by `op`. `axes` name its dimensions, `part` is where the map shows it (embed, ln1, …).

    word         what one of its numbers is called, where not by the last piece of the name
    heading      what a column of them is called, where not by the last piece of the name
    as_reader    how a sentence speaks of it where it reads another number
    use          what a parameter is used for here, if it has several uses
    stages       its steps in rows of steps, its own row first
    onward       what it is called beside what it is made of, column by column ("^(…)" is raised); "" is not shown so
    span         what its numbers can be: any, between 0 and 1 ("unit"), or shares of a whole
    predicts     whether the tokens of its vocabulary axis are those that may come next
    is_key_side  whether attention looks at its positions, instead of looking from them
    switch       what is switched off where it is set to 0; {} is the one place on its second axis
    """

    axes: tuple[str, ...]
    op: Op
    title: str
    part: str
    block: int | None = None
    is_parameter: bool = False
    word: str = ""
    heading: str = ""
    as_reader: str = ""
    use: str = ""
    stages: tuple[Stage, ...] = ()
    onward: str = ""
    span: Literal["any", "unit", "share"] = "any"
    predicts: bool = False
    is_key_side: bool = False
    switch: str = ""

    def __post_init__(self) -> None:
        for name in ("word", "heading", "as_reader"):
            if not getattr(self, name):
                object.__setattr__(self, name, self.short)

    @property
    def name(self) -> str:
        return self.op.out

    @property
    def short(self) -> str:
        """The last piece of the name: `qk` of `blocks.2.attn.qk`."""
        return self.name.rsplit(".", 1)[-1]

    @property
    def prefix(self) -> str:
        """The name without its last piece: `blocks.2.attn.` of `blocks.2.attn.qk`."""
        return self.name.removesuffix(self.short)

    @property
    def is_masked(self) -> bool:
        """Whether it has a number for each two tokens, of which those with the key after the query play no part."""
        return self.axes == ATTENTION

    @property
    def is_view(self) -> bool:
        """Whether this is another reading of numbers that the network has: see `model.ops.linear.View`."""
        return isinstance(self.op, View)


@dataclass(frozen=True)
class Config:
    """Sizes that every architecture has; each adds its own.

    `adds` is False in a what-if alone: blocks then put what they found in place of their row instead of adding it.
    """

    model_type: ClassVar[str]  # as in config.json
    stored_as: ClassVar[Mapping[str, str]]  # its other names -> ours

    n_layer: int
    n_head: int
    d_model: int
    d_mlp: int
    d_vocab: int
    n_ctx: int
    act: str = "gelu_new"  # the feed-forward network's activation
    eps: float = 1e-5
    adds: bool = True

    def __post_init__(self) -> None:
        for name in ("n_layer", "n_head", "d_model", "d_mlp", "d_vocab", "n_ctx"):
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise CheckpointError(f"config: {name} is {size!r}, but must be a whole number of at least 1")

    @property
    def d_head(self) -> int:
        """Numbers of one head's query, key and value. The heads share d_model unless a config says otherwise."""
        return self.d_model // self.n_head

    @property
    def n_kv_head(self) -> int:
        """Heads that have keys and values of their own; each query head reads one of them."""
        return self.n_head

    @classmethod
    def from_hf(cls, hf: Mapping[str, Any]) -> Self:
        """Read a Hugging Face `config.json`; a setting that would change the arithmetic is refused by name."""
        raise NotImplementedError

    def to_hf(self, start_id: int) -> dict[str, Any]:
        """The `config.json` that transformers reads back as the same network; `start_id` is the start token's id."""
        raise NotImplementedError


def refuse_others(hf: Mapping[str, Any], only: Mapping[str, Any]) -> None:
    """Raise CheckpointError where a setting has another value than the only one that the network computes."""
    for name, value in only.items():
        if hf.get(name, value) != value:
            raise CheckpointError(f"config.json: {name} = {hf[name]!r} is not supported, only {value!r}")
