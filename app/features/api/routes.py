"""JSON for programs: the same runs, values and explanations as the pages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from app.dependencies import run_state
from app.panels import data, schemas
from app.panels.data import ready
from app.request import answers
from app.request.page_state import Hint
from app.request.state import LARGEST, RunQuery
from app.services import ServicesDep
from model import Run

TOP = 10

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.ErrorAnswer, "description": "A parameter is malformed or does not fit this run."},
    404: {"model": schemas.ErrorAnswer, "description": "No such model, site or job."},
    409: {"model": schemas.ErrorAnswer, "description": "Learning steps of a large model that a job must take first."},
    429: {"model": schemas.ErrorAnswer, "description": "Too much from one address at once; see Retry-After."},
    503: {"model": schemas.ErrorAnswer, "description": "Too many runs are waiting; see Retry-After."},
}

router = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["Every Number"])


Limit = Annotated[int, Hint("A limit is a whole number, as in limit=20.")]


class ValuesQuery(RunQuery):
    """What `/values` takes."""

    at: str = Field(
        description="An address with or without slices, or a calc(…).",
        examples=["blocks.0.attn.pattern[0,:,:]", "logits[3,0:10]", "blocks.0.mlp.W_in[5,:].grad"],
    )
    format: Literal["json", "csv", "npy"] = "json"


class ExplainQuery(RunQuery):
    """What `/explain` takes."""

    at: str = Field(description="The address of one number.", examples=["loss", "W_E[5,0].step(3)"])
    offset: int = Field(0, ge=0, le=LARGEST, description="The first term listed, in this order.")
    limit: Limit = Field(20, ge=0, le=1000, description="How many terms are listed.")
    order: Literal["size", "index"] = Field("size", description="Largest first, or in index order.")
    format: Literal["json", "csv"] = Field("json", description="csv: all terms in index order.")


@router.get("/models", response_model=schemas.Models, summary="The models a run can use")
async def models(services: ServicesDep) -> Response:
    """Names for `model=`, with their sizes."""
    cards = [
        schemas.ModelCard.of(
            entry,
            is_default=entry.name == services.models.default,
            is_loaded=services.models.is_loaded(entry.name),
            d_head=entry.config.d_head,
            **{name: value for name, value in vars(entry.config).items() if name in schemas.ModelCard.model_fields},
        )
        for entry in services.models
    ]
    return answers.json(schemas.Models(default=services.models.default, models=cards))


@router.get("/run", response_model=schemas.RunAnswer, summary="Run a text")
async def run(query: Annotated[RunQuery, Query()], services: ServicesDep) -> Response:
    """Tokens, likeliest next tokens, loss, and every site and parameter with its shape."""
    return await services.runs.use(run_state(services, query), lambda run: answers.json(run_answer(run)))


@router.get(
    "/values",
    response_model=schemas.Values,
    summary="Read numbers",
    responses={200: {"content": {"text/csv": {}, "application/octet-stream": {}}}},
)
async def values(query: Annotated[ValuesQuery, Query()], services: ServicesDep) -> Response:
    """The numbers at an address, as JSON, as CSV (one number a line, its indices first) or as a NumPy file."""
    state = run_state(services, query)
    write = data.VALUES[query.format]
    return await services.runs.use(state, lambda run: write(services, ready(run, query.at), query.at))


@router.get(
    "/explain",
    response_model=schemas.ExplanationAnswer,
    summary="Explain one number",
    responses={200: {"content": {"text/csv": {}}}},
)
async def explain(query: Annotated[ExplainQuery, Query()], services: ServicesDep) -> Response:
    """The terms that make a number, their total in float64, and its difference from what was captured."""

    def work(run: Run) -> Response:
        if query.format == "csv":
            return data.terms_csv(ready(run, query.at).explain(query.at, limit=data.EVERY_TERM))
        found = ready(run, query.at).explain(query.at, offset=query.offset, limit=query.limit, order=query.order)
        return answers.json(data.explanation_answer(found))

    return await services.runs.use(run_state(services, query), work)


@router.get("/heads", response_model=schemas.Heads, summary="What each attention head does")
async def heads(services: ServicesDep, model: Annotated[str, Query(description="A model's name.")] = "") -> Response:
    """Measured on short texts of each kind, once for each model."""
    name = services.models.entry(model).name
    found = await services.runs.in_thread(lambda: services.models.heads(name))
    return answers.json(schemas.Heads(model=name, heads=[schemas.Head.of(scores) for scores in found]))


def run_answer(run: Run) -> schemas.RunAnswer:
    tokenizer, last = run.model.tokenizer, run.n_pos - 1
    target = {"kind": "token", "id": run.target, "text": tokenizer.text(run.target), "is_own": run.target_is_own}
    return schemas.RunAnswer.of(
        run,
        model=run.model.name,
        tokens=[
            schemas.Token(position=t, id=token, text=tokenizer.text(token), bytes=tokenizer.bytes(token).hex())
            for t, token in enumerate(run.tokens)
        ],
        target={"kind": "sequence", "is_own": False} if run.is_sequence else target,
        loss=float(run.tensor("loss")),
        cost=schemas.Cost(
            kept="stream" if run.is_long else "whole",
            nbytes=run.nbytes,
            pass_seconds=run.model.seconds(run.n_pos),
            gradient_seconds=run.seconds_back(),
        ),
        top=[
            schemas.Prediction(id=token, text=tokenizer.text(token), probability=p, address=f"probs[{last},{token}]")
            for token, p in run.top(TOP)
        ],
        sites=[schemas.Site.of(node, shape=run.shape(node.name)) for node in run.model.graph],
    )
