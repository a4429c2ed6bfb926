"""The shapes of JSON answers. Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

Number = Annotated[
    float,
    WithJsonSchema(
        {
            "anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}],
            "description": "A number; what JSON cannot write as one is a string.",
        }
    ),
]


_NOT_THERE = object()


class Schema(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(
        ser_json_inf_nan="strings", from_attributes=True, populate_by_name=True, protected_namespaces=()
    )

    @classmethod
    def of(cls, source: object, **more: Any) -> Self:
        """Filled with what `source` has by the names of the fields (or their `validation_alias`), and with `more`."""
        names = {name: str(field.validation_alias or name) for name, field in cls.model_fields.items()}
        found = {name: getattr(source, names[name], _NOT_THERE) for name in names if name not in more}
        return cls.model_validate({name: value for name, value in found.items() if value is not _NOT_THERE} | more)


class ModelCard(Schema):
    """One model that `model=` can name."""

    name: str = Field(examples=["embedded"])
    is_default: bool
    n_layer: int
    n_head: int
    d_model: int
    d_head: int
    d_mlp: int
    d_vocab: int
    n_ctx: int = Field(description="The longest text in tokens, the start token counted.")
    act: str = Field(description="The feed-forward network's activation.", examples=["gelu_new"])
    n_parameters: int
    memory: int = Field(description="Bytes that it takes when loaded.")
    on_disk: int = Field(description="Bytes of the file with its weights; 0 where it has none.")
    is_loaded: bool = Field(description="Whether it is in memory; if not, it is loaded when first asked for.")
    text: str = Field(description="The text that is run where none is given.")


class Models(Schema):
    """All models."""

    default: str
    models: list[ModelCard]


class Token(Schema):
    """One token of the run."""

    position: int = Field(description="0-based; position t predicts the token at t+1.")
    id: int
    text: str | None = Field(description="Null where its bytes are not whole UTF-8.")
    bytes: str = Field(description="In hexadecimal.", examples=["204d617279"])


class Target(Schema):
    """What the loss is computed against."""

    kind: Literal["token", "sequence"]
    id: int | None = None
    text: str | None = None
    is_own: bool = Field(description="Whether it is the model's own first guess.")


class Prediction(Schema):
    """One likely next token after the last position."""

    id: int
    text: str | None
    probability: Number
    address: str = Field(examples=["probs[14,742]"])


class Site(Schema):
    """One named tensor of the graph: a site of the run or a parameter."""

    name: str = Field(examples=["blocks.0.attn.pattern"])
    title: str
    axes: list[str] = Field(examples=[["head", "query", "key"]])
    shape: list[int]
    block: int | None
    is_parameter: bool


class Cost(Schema):
    """What a run takes, and what reading its slopes will take: by what passes of this process have taken."""

    kept: Literal["whole", "stream"] = Field(
        description="stream: of a long run its residual stream; a block's inside is computed again when read."
    )
    nbytes: int = Field(description="Bytes it holds now.")
    pass_seconds: float = Field(description="About how long a pass over its tokens takes here.")
    gradient_seconds: float = Field(description="About how long it takes until all slopes are known; 0: they are.")


class RunAnswer(Schema):
    """A run at a glance."""

    model: str
    text: str
    bos: bool
    tokens: list[Token]
    target: Target
    loss: Number
    cost: Cost
    top: list[Prediction]
    sites: list[Site] = Field(description="In the order they are computed.")


class Values(Schema):
    """Numbers at one address."""

    address: str = Field(examples=["blocks.0.attn.pattern[0,:,:]"])
    shape: list[int] = Field(description="[] for a single number.")
    axes: list[str] = Field(description="The axes that `values` runs over.")
    starts: list[int] = Field(description="The first index on each of these axes.")
    values: Any = Field(
        description="A number, or lists of numbers nested like `shape`; the float32 values exactly; what JSON cannot "
        'write is "NaN", "Infinity" or "-Infinity".',
        examples=[[[1.0, 0.0], [0.25, 0.75]]],
    )


class Factor(Schema):
    """One factor of a term: it has an address, or it is a named constant."""

    value: Number
    address: str | None = None
    constant: str | None = Field(None, description="The name of a constant, in LaTeX.")


class Term(Schema):
    """One term."""

    index: int = Field(description="Its place in index order.")
    product: Number
    factors: list[Factor]
    label: str
    place: Annotated[dict[str, int], BeforeValidator(dict)] = Field(
        description="Its place on the axes that are summed over."
    )


class Subtotal(Schema):
    """What one place on the first axis adds, e.g. one attention head."""

    axis: str
    place: int
    value: Number
    address: str


class Step(Schema):
    """One step of the formula on the way to the value."""

    latex: str
    value: Number
    address: str


class ExplanationAnswer(Schema):
    """How one number is made."""

    address: str
    site: str
    value: Number = Field(description="What PyTorch captured in float32 (of a calc(…): its value in float64).")
    op: str
    formula: str = Field(description="In LaTeX.")
    plain: str = Field(description="In words; {t3} is the token at position 3, {v17} vocabulary entry 17.")
    combine: Literal["sum", "quotient", "function", "given"] = Field(
        description="How all terms make the total: their sum, the first ÷ the sum of the others, "
        "`function` of their sum (max: of them), or nothing (a token, a weight)."
    )
    function: Annotated[str | None, BeforeValidator(lambda found: getattr(found, "name", found))] = Field(
        description="The function where `combine` is function."
    )
    terms: list[Term]
    n_terms: int
    offset: int
    limit: int
    order: Literal["size", "index"]
    rest: Number = Field(description="The sum of the products that are not listed.")
    total: Number = Field(description="Recomputed in float64 from all terms.")
    difference: Number = Field(description="total − value")
    allowed: Number = Field(description="The largest |difference| that counts as agreeing.")
    fault: bool = Field(description="Whether the difference is larger than that.")
    subtotals: list[Subtotal]
    steps: list[Step]
    used_by: list[str] = Field(description="Addresses, with slices, of what reads this number next.")
    notes: list[str]


class Head(Schema):
    """How one attention head spends its attention: shares from 0 to 1, null where this model cannot be asked."""

    block: int
    head: int
    previous: Number | None = Field(description="To the token before.")
    start: Number | None = Field(description="To the start token.")
    duplicate: Number | None = Field(description="To earlier copies of the same token.")
    induction: Number | None = Field(description="To what followed an earlier copy of the token.")
    receiver: Number | None = Field(description="From the last position to the name that has not given.")
    giver: Number | None = Field(description="From the last position to the name that gives.")
    first_name: Number | None = Field(description="To the name that comes first, whoever gives.")
    second_name: Number | None = Field(description="To the name that comes second, whoever gives.")


class Heads(Schema):
    """Every head of a model."""

    model: str
    heads: list[Head]


class ErrorDetail(Schema):
    """What is wrong."""

    code: str = Field(examples=["bad_address"])
    message: str
    hint: str = Field(description="A way out, often a correct example.")
    part: str = Field(description="The parameter that is wrong.", examples=["at"])


class ErrorAnswer(Schema):
    """The shape of every error."""

    error: ErrorDetail
