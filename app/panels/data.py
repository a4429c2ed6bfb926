"""Numbers and explanations as data: JSON, CSV, NumPy files."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from app.panels import schemas, steps
from app.request import answers
from app.request.answers import attachment
from app.services import Services
from model import Explanation, Run
from model.address.parser import Calc, parse
from model.errors import AddressError, ReaderError
from model.explain.terms import Term

EVERY_TERM = 2**31


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


def explanation_answer(e: Explanation) -> schemas.ExplanationAnswer:
    own = {name: getattr(e, name) for name in schemas.ExplanationAnswer.model_fields if hasattr(e, name)}
    return schemas.ExplanationAnswer.model_validate(
        own
        | vars(e.window)
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
    return answers.json(body)


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


VALUES = {"json": values_json, "csv": values_csv, "npy": values_npy}


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
