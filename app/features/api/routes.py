"""JSON for programs: the same runs, values and explanations as the pages."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.dependencies import run_state
from app.features.api import schemas
from app.panels import steps
from app.request.page_state import Hint
from app.request.state import LARGEST, RunQuery
from app.services import Services, ServicesDep
from model import Explanation, Run
from model.address.parser import Calc, parse
from model.errors import AddressError, ReaderError
from model.explain.terms import Term

TOP = 10
EVERY_TERM = 2**31

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
        schemas.ModelCard(
            name=entry.name,
            is_default=entry.name == services.models.default,
            d_head=entry.config.d_head,
            n_parameters=entry.n_parameters,
            memory=entry.memory,
            on_disk=entry.on_disk,
            is_loaded=services.models.is_loaded(entry.name),
            text=entry.text,
            **{k: v for k, v in vars(entry.config).items() if k in schemas.ModelCard.model_fields},
        )
        for entry in services.models
    ]
    return answer(schemas.Models(default=services.models.default, models=cards))


@router.get("/run", response_model=schemas.RunAnswer, summary="Run a text")
async def run(query: Annotated[RunQuery, Query()], services: ServicesDep) -> Response:
    """Tokens, likeliest next tokens, loss, and every site and parameter with its shape."""
    return await services.runs.use(run_state(services, query), lambda run: answer(run_answer(run)))


@router.get(
    "/values",
    response_model=schemas.Values,
    summary="Read numbers",
    responses={200: {"content": {"text/csv": {}, "application/octet-stream": {}}}},
)
async def values(query: Annotated[ValuesQuery, Query()], services: ServicesDep) -> Response:
    """The numbers at an address, as JSON, as CSV (one number a line, its indices first) or as a NumPy file."""
    state = run_state(services, query)
    write = {"json": values_json, "csv": values_csv, "npy": values_npy}[query.format]
    return await services.runs.use(state, lambda run: write(services, ready(run, query.at), query.at))


@router.get(
    "/explain",
    response_model=schemas.ExplanationAnswer,
    summary="Explain one number",
    responses={200: {"content": {"text/csv": {}}}},
)
async def explain(query: Annotated[ExplainQuery, Query()], services: ServicesDep) -> Response:
    """The terms that make a number, their total in float64, and its difference from what was captured."""
    work: Callable[[Run], Response]
    if query.format == "csv":
        work = lambda run: terms_csv(ready(run, query.at).explain(query.at, limit=EVERY_TERM))  # noqa: E731
    else:
        work = lambda run: answer(  # noqa: E731
            explanation_answer(
                ready(run, query.at).explain(query.at, offset=query.offset, limit=query.limit, order=query.order)
            )
        )
    return await services.runs.use(run_state(services, query), work)


@router.get("/heads", response_model=schemas.Heads, summary="What each attention head does")
async def heads(services: ServicesDep, model: Annotated[str, Query(description="A model's name.")] = "") -> Response:
    """Measured on short texts of each kind, once for each model."""
    name = services.models.entry(model).name
    found = await services.runs.in_thread(lambda: services.models.heads(name))
    return answer(schemas.Heads(model=name, heads=[schemas.Head.model_validate(scores) for scores in found]))


class StepsNotTaken(ReaderError):
    """An address after learning steps of a large model, which nobody has taken yet."""

    code, part = "steps_not_taken", "at"


def ready(run: Run, at: str) -> Run:
    """The run, where what `at` asks of it can be answered at once. Raises StepsNotTaken."""
    if steps.must_wait(run, at):
        k = steps.named(at)
        raise StepsNotTaken(
            f"{at[:80]} needs {steps.in_words(k)} of a large model, which are not taken yet.",
            f"POST the same inputs with steps={k} to /api/v1/jobs, wait for it, and ask again.",
        )
    return run


# -- answers


def answer(body: BaseModel) -> Response:
    return Response(body.model_dump_json(), media_type="application/json", headers={"Cache-Control": "no-cache"})


def attachment(content: str | bytes, media_type: str, address: str, ending: str) -> Response:
    """A file named after the address, in signs that every file system takes."""
    name = re.sub(r"[^A-Za-z0-9.,_+()-]+", "_", address.replace("[", "_").replace("]", "").replace(":", "-"))[:120]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"', "Cache-Control": "no-cache"}
    return Response(content, media_type=media_type, headers=headers)


def run_answer(run: Run) -> schemas.RunAnswer:
    tokenizer, last = run.model.tokenizer, run.n_pos - 1

    if run.is_sequence:
        target = schemas.Target(kind="sequence", is_own=False)
    else:
        target = schemas.Target(kind="token", id=run.target, text=tokenizer.text(run.target), is_own=run.target_is_own)
    return schemas.RunAnswer(
        model=run.model.name,
        text=run.text,
        bos=run.bos,
        tokens=[
            schemas.Token(position=t, id=token, text=tokenizer.text(token), bytes=tokenizer.bytes(token).hex())
            for t, token in enumerate(run.tokens)
        ],
        target=target,
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
        sites=[
            schemas.Site(
                name=node.name,
                title=node.title,
                axes=list(node.axes),
                shape=list(run.shape(node.name)),
                block=node.block,
                is_parameter=node.is_parameter,
            )
            for node in run.model.graph
        ],
    )


def explanation_answer(e: Explanation) -> schemas.ExplanationAnswer:
    own = {name: getattr(e, name) for name in schemas.ExplanationAnswer.model_fields if hasattr(e, name)} | vars(
        e.window
    )
    return schemas.ExplanationAnswer.model_validate(
        own
        | {
            "function": e.function.name if e.function else None,
            "terms": [vars(term) | {"place": dict(term.place)} for term in e.terms],
        }
    )


# -- values


def region(run: Run, at: str) -> tuple[str, list[str], list[int], list[int]]:
    """The address in its usual spelling, and the axes it leaves open with their starts and sizes."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        sizes = list(run.values(at).shape)
        return str(parsed), [f"axis_{n}" for n in range(len(sizes))], [0] * len(sizes), sizes
    checked = run.check(parsed)
    axes = zip(run.model.graph[checked.site].axes, checked.index, run.shape(checked.site), strict=True)
    opened = [(axis, i.indices(size)) for axis, i, size in axes if isinstance(i, slice)]
    starts, stops = [start for _, (start, _, _) in opened], [stop for _, (_, stop, _) in opened]
    sizes = [stop - start for start, stop in zip(starts, stops, strict=True)]
    return str(parsed), [axis for axis, _ in opened], starts, sizes


def read(run: Run, at: str, most: int) -> tuple[schemas.Values, NDArray[Any]]:
    """The numbers at an address and, apart from them, what they are. More than `most` are refused."""
    address, axes, starts, sizes = region(run, at)
    if math.prod(sizes) > most:
        raise AddressError(
            f"{address} is {math.prod(sizes):,} numbers; one answer holds at most {most:,}.",
            "Take a part of it, as in logits[3,0:1000], or a file with format=npy.",
        )
    return schemas.Values(address=address, shape=sizes, axes=axes, starts=starts, values=None), run.values(at)


def values_json(services: Services, run: Run, at: str) -> Response:
    about, found = read(run, at, services.settings.max_numbers)
    nested = found.tolist() if np.isfinite(found).all() else spelled(found.tolist())
    body = json.dumps(about.model_dump() | {"values": nested}, allow_nan=False, separators=(",", ":"))
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-cache"})


def spelled(values: Any) -> Any:
    """NaN and ±∞ as the strings that stand for them in JSON."""
    if isinstance(values, list):
        return [spelled(value) for value in values]
    if math.isfinite(values):
        return values
    return "NaN" if math.isnan(values) else "Infinity" if values > 0 else "-Infinity"


def values_csv(services: Services, run: Run, at: str) -> Response:
    """One line a number: its index on each open axis, then the number with all the digits it has."""
    about, found = read(run, at, services.settings.max_numbers)
    places = [axis.ravel() + start for axis, start in zip(np.indices(found.shape), about.starts, strict=True)]
    out = io.StringIO()
    write = csv.writer(out)
    write.writerow([*about.axes, "value"])
    write.writerows(zip(*(place.tolist() for place in places), map(str, found.ravel()), strict=True))
    return attachment(out.getvalue(), "text/csv; charset=utf-8", about.address, "csv")


def values_npy(services: Services, run: Run, at: str) -> Response:
    about, found = read(run, at, services.settings.max_file_numbers)
    out = io.BytesIO()
    np.save(out, found, allow_pickle=False)
    return attachment(out.getvalue(), "application/octet-stream", about.address, "npy")


# -- terms


def terms_csv(e: Explanation) -> Response:
    """Every term in index order: its place, each factor's address (or constant) and value, the product."""
    most = max((len(term.factors) for term in e.terms), default=0)
    heads = [f"factor_{n}{what}" for n in range(1, most + 1) for what in ("", "_value")]
    out = io.StringIO()
    write = csv.writer(out)
    write.writerow(["index", "label", "place", *heads, "product"])
    write.writerows(term_row(term, most) for term in e.terms)
    return attachment(out.getvalue(), "text/csv; charset=utf-8", f"terms_of_{e.address}", "csv")


def term_row(term: Term, most: int) -> list[object]:
    place = " ".join(f"{axis}={n}" for axis, n in term.place)
    factors = [cell for f in term.factors for cell in (f.address or f.constant, repr(f.value))]
    return [term.index, term.label, place, *factors, *[""] * (2 * (most - len(term.factors))), repr(term.product)]
