"""Numbers and explanations as data: JSON, CSV, NumPy files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
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


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], address: str) -> Response:
    """A CSV file."""
    out = io.StringIO()
    csv.writer(out).writerows([heads, *rows])
    return attachment(out.getvalue(), "text/csv; charset=utf-8", address, "csv")


def array(numbers: NDArray[Any], address: str) -> Response:
    """A NumPy file."""
    out = io.BytesIO()
    np.save(out, numbers, allow_pickle=False)
    return attachment(out.getvalue(), "application/octet-stream", address, "npy")


# -- values


def read(run: Run, at: str, most: int) -> tuple[schemas.Values, NDArray[Any]]:
    """The numbers at an address and, apart from them, what they are. Raises AddressError for more than `most`."""
    parsed = parse(at)
    if isinstance(parsed, Calc):  # its shape is known once it is worked out
        numbers = run.values(at)
        sizes = list(numbers.shape)
        axes, starts = [f"axis_{n}" for n in range(len(sizes))], [0] * len(sizes)
        _check_size(parsed, sizes, most)
    else:
        checked = run.check(parsed)
        every = zip(run.model.graph[checked.site].axes, checked.index, run.shape(checked.site), strict=True)
        opened = [(axis, *i.indices(size)[:2]) for axis, i, size in every if isinstance(i, slice)]
        axes, starts = [axis for axis, _, _ in opened], [start for _, start, _ in opened]
        sizes = [stop - start for _, start, stop in opened]
        _check_size(parsed, sizes, most)
        numbers = run.values(at)
    return schemas.Values(address=str(parsed), shape=sizes, axes=axes, starts=starts, values=None), numbers


def _check_size(address: object, sizes: list[int], most: int) -> None:
    if math.prod(sizes) > most:
        raise AddressError(
            f"{address} is {math.prod(sizes):,} numbers; one answer holds at most {most:,}.",
            "Take a part of it, as in logits[3,0:1000], or a file with format=npy.",
        )


def values_json(services: Services, run: Run, at: str) -> Response:
    about, numbers = read(run, at, services.settings.max_numbers)
    nested = numbers.tolist() if np.isfinite(numbers).all() else _spelled(numbers.tolist())
    return answers.json(json.dumps(about.model_dump() | {"values": nested}, allow_nan=False, separators=(",", ":")))


def _spelled(values: Any) -> Any:
    """NaN and ±∞ as the strings that stand for them in JSON."""
    if isinstance(values, list):
        return [_spelled(value) for value in values]
    if math.isfinite(values):
        return values
    return "NaN" if math.isnan(values) else "Infinity" if values > 0 else "-Infinity"


def values_csv(services: Services, run: Run, at: str) -> Response:
    """One line a number: its index on each open axis, then the number with all the digits it has."""
    about, numbers = read(run, at, services.settings.max_numbers)
    places = [axis.ravel() + start for axis, start in zip(np.indices(numbers.shape), about.starts, strict=True)]
    rows = zip(*(place.tolist() for place in places), map(str, numbers.ravel()), strict=True)
    return table([*about.axes, "value"], rows, about.address)


def values_npy(services: Services, run: Run, at: str) -> Response:
    about, numbers = read(run, at, services.settings.max_file_numbers)
    return array(numbers, about.address)


VALUES = {"json": values_json, "csv": values_csv, "npy": values_npy}


# -- terms


def explanation_answer(e: Explanation) -> schemas.ExplanationAnswer:
    return schemas.ExplanationAnswer.of(e, **vars(e.window))


def terms_json(e: Explanation) -> Response:
    """What `/api/v1/explain` answers, as a file."""
    return attachment(explanation_answer(e).model_dump_json(), "application/json", f"terms_of_{e.address}", "json")


def terms_csv(e: Explanation) -> Response:
    """Every term in index order: its place, each factor's address (or constant) and value, the product."""
    most = max((len(term.factors) for term in e.terms), default=0)
    heads = [f"factor_{n}{what}" for n in range(1, most + 1) for what in ("", "_value")]
    rows = (_term_row(term, most) for term in e.terms)
    return table(["index", "label", "place", *heads, "product"], rows, f"terms_of_{e.address}")


def _term_row(term: Term, most: int) -> list[object]:
    place = " ".join(f"{axis}={n}" for axis, n in term.place)
    factors = [cell for f in term.factors for cell in (f.address or f.constant, repr(f.value))]
    return [term.index, term.label, place, *factors, *[""] * (2 * (most - len(term.factors))), repr(term.product)]
