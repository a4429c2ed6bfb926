"""Where a request goes: to the replicas that learn or to the others, and to one that holds its model or its job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

from pydantic import ValidationError

from app.request.state import RunQuery
from app.stores.catalogue import Catalogue
from app.stores.jobs import job_id
from model.errors import ReaderError

JOBS = ("/learn", "/api/v1/jobs")  # paths, with all below them, that the learning replicas answer
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class ForwardedRequest:
    """A request, as it is passed between processes. `client` is the address it came from."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    client: tuple[str, int] | None = None
    scheme: str = "http"

    def parameters(self) -> dict[str, object]:
        """Of the query, and of a body that is a form or JSON, the last of each name; what can't be read has none."""
        found: dict[str, object] = dict(parse_qsl(self.query.decode("latin-1"), keep_blank_values=True))
        kind = dict(self.headers).get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if kind == FORM:
            found |= parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)
        elif kind == "application/json":
            with suppress(ValueError):
                given = json.loads(self.body)
                found |= given if isinstance(given, dict) else {}
        return found


@dataclass(frozen=True)
class Route:
    """`pool`: which replicas. `holder`: what one of them may hold already, a model or a job; "" where any will do."""

    pool: Literal["pages", "jobs"]
    holder: str = ""


def route(asked: ForwardedRequest, models: Catalogue) -> Route:
    """Every replica has the default model, so only others are looked for; a job goes where it runs."""
    given = asked.parameters()
    below = next((asked.path[len(top) :] for top in JOBS if f"{asked.path}/".startswith(f"{top}/")), None)
    if below is not None:
        return Route("jobs", _job(below, given, models))
    name = given.get("model")
    is_other = isinstance(name, str) and name in models and name != models.default
    return Route("pages", str(name) if is_other else "")


def _job(below: str, given: Mapping[str, object], models: Catalogue) -> str:
    """The job's id: in the path of the API, else from what the request asks for."""
    id = below.strip("/").partition("/")[0]
    if id and id != "cancel":
        return id[:40]
    try:
        asked = RunQuery.model_validate({name: value for name, value in given.items() if name != "set"})
        return job_id(models, asked)
    except (ValidationError, ReaderError):
        return ""  # any replica tells what is wrong with it
