"""What a reader sees when something is wrong: the part named, a way out, their own input kept. Never a stack trace."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.request import answers
from app.request.htmx import Htmx
from app.request.look import readable_look
from app.request.page_state import HINTS, reader_error
from app.request.state import State
from app.server.limits import TooMany
from app.server.prefix import path_of
from app.server.security import FRAMED, HEADERS
from app.services import Services, services_of
from app.stores.budgeted import Busy
from model.errors import CheckpointError, ReaderError, TargetError

log = logging.getLogger(__name__)

BUSY_SECONDS = 5

UNKNOWN = {"unknown_model", "model_not_here", "unknown_site", "unknown_job", "unknown_page"}

TITLES = {
    "at": "That address names nothing here",
    "text": "That text cannot be run",
    "target": "That target cannot be used",
    "model": "There is no such model",
    "eta": "That learning rate cannot be used",
    "steps": "That many steps cannot be taken",
    "set": "That number cannot be set",
}

# What features say of their own pages: the template of the form that is shown again, with what the reader put in; or
# what writes the whole page with what is wrong in it.
FORMS: dict[str, str] = {}
PAGES: dict[str, Callable[[Services, Fault, QueryParams], str]] = {}

BODY = 'Send JSON with Content-Type: application/json, as in {"text": "The cat sat on the", "steps": 3}.'

# pydantic's kinds of errors in words; `{given}` is what was given, the others are the bounds of the field.
SAYS = {
    "missing": "is missing",
    "json_invalid": "is not valid JSON",
    "int_parsing": "is “{given}”, but must be a whole number",
    "int_parsing_size": "is too large",
    "bool_parsing": "is “{given}”, but must be 0 or 1",
    "greater_than_equal": "is {given}, but may not be less than {ge}",
    "greater_than": "is {given}, but must be more than {gt}",
    "less_than_equal": "is {given}, but may not be more than {le}",
    "literal_error": "is “{given}”, but must be {choices}",
    "string_too_long": "is longer than {max_length} characters",
    "too_long": "is given more than {max_length} times",
    "float_parsing": "is “{given}”, but must be a number",
    "finite_number": "is “{given}”, but must be a number",
}

OF_THE_BODY = (400, 408, 413)  # statuses for one that cannot be read (raised by FastAPI), is too slow, is too large


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong. `offers` are targets that would do, where the target is the part.

    `wait` is after how many seconds the same may be asked again, where that is all it takes.
    """

    status: int
    code: str
    message: str
    hint: str = ""
    part: str = ""
    offers: tuple[str, ...] = ()
    wait: int = 0

    @property
    def title(self) -> str:
        if self.status in (429, 503):
            return "Too much at once"
        if self.status >= 500:
            return "Something went wrong here"
        if self.part:
            return TITLES.get(self.part, f"“{self.part}” cannot be read")
        return "There is no such page" if self.status == 404 else "That cannot be done"

    @property
    def is_of_what_was_asked(self) -> bool:
        """Whether another try at the same page may do: not where it is missing or broken."""
        return self.code != "internal" and not self.code.startswith("http_")

    def json(self) -> dict[str, dict[str, str]]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint, "part": self.part}}


def fault_of(error: Exception) -> Fault:
    """What to tell about an error."""
    if isinstance(error, CheckpointError):
        return Fault(500, error.code, error.message, error.hint, error.part)
    if isinstance(error, ReaderError):
        status = 404 if error.code in UNKNOWN else 409 if error.code == "steps_not_taken" else 400
        offers = error.tokens if isinstance(error, TargetError) else ()
        return Fault(status, error.code, error.message, error.hint, error.part, offers)
    if isinstance(error, RequestValidationError):
        checked = reader_error(error.errors())
        return fault_of(checked) if checked else _malformed(error.errors()[0], getattr(error, "hints", HINTS))
    if isinstance(error, Busy):
        message = str(error) or "Too many runs are waiting already."
        return Fault(503, "busy", message, "Try again in a few seconds.", wait=BUSY_SECONDS)
    if isinstance(error, TooMany):
        hint = f"Try again in {error.seconds} second{'s' if error.seconds != 1 else ''}."
        return Fault(429, "too_many_requests", str(error), hint, wait=error.seconds)
    if isinstance(error, HTTPException) and error.status_code in OF_THE_BODY:
        unread = error.status_code == 400
        message, hint = ("The body of the request cannot be read.", BODY) if unread else (error.detail, "")
        return Fault(error.status_code, f"http_{error.status_code}", message, hint, "body")
    if isinstance(error, HTTPException):
        methods = ", ".join(sorted((error.headers or {}).get("Allow", "GET").split(", ")))
        messages = {404: "Nothing lies at this address.", 405: f"This address only answers {methods}."}
        return Fault(error.status_code, f"http_{error.status_code}", messages.get(error.status_code, str(error.detail)))
    return Fault(500, "internal", "The fault is in this program, not in what you asked; it has been logged.")


def _malformed(error: Mapping[str, Any], hints: Mapping[str, str]) -> Fault:
    """A parameter that FastAPI could not read, in words."""
    part = str(next(place for place in reversed(error["loc"]) if isinstance(place, str)))
    bounds = {name: str(bound).removesuffix(".0") for name, bound in error.get("ctx", {}).items()}
    expected = bounds.get("expected", "")  # as pydantic writes it: 'sgd' or 'adamw'
    said = SAYS.get(error["type"], "cannot be read").format(
        given=str(error.get("input", ""))[:80], choices=re.sub(r"'(.*?)'", r"“\1”", expected), **bounds
    )
    name = "body of the request" if error["loc"][0] == part == "body" else f"parameter {part}"
    hint = BODY if part == "body" else hints.get(part, "")
    if expected:
        hint = "Write " + re.sub(r"'(.*?)'", rf"{part}=\1", expected) + "."
    return Fault(400, "bad_parameter", f"The {name} {said}.", hint, part)


def add_handlers(app: FastAPI) -> None:
    """All errors of all routes end here."""

    async def handle(request: Request, error: Exception) -> Response:
        return answer_to(request, error)

    for kind in (ReaderError, RequestValidationError, HTTPException, Busy, TooMany, Exception):
        app.add_exception_handler(kind, handle)


def answer_to(request: Request, error: Exception) -> Response:
    """What a reader is told about an error: JSON for the API, a fragment for HTMX (its notice), else a page."""
    fault = fault_of(error)
    headers = {"Retry-After": str(fault.wait)} if fault.wait else {}
    if fault.status == 500:
        headers |= HEADERS  # the answer to a crash does not pass through the middleware
        log.error("%s %s: %s", request.method, path_of(request), fault.message)
    if path_of(request).startswith("/api/"):
        return JSONResponse(fault.json(), fault.status, headers)
    services, query, path = services_of(request), request.query_params, path_of(request)
    kept = kept_state(services, query)
    if fault.code == "bad_target":
        fault = replace(fault, offers=(*with_space(services, kept), *fault.offers))
    form = FORMS.get(path, "")
    fields = {name: query.get(name, "") for name in ("target", "eta", "optimizer")}  # what stands in the form again
    fields |= {"text": kept.text, "steps": query.get("steps") or str(kept.steps)}
    context = {"fault": fault, "path": path if form else "", "form": form, "fields": fields}
    if Htmx.of(request).wants_part:
        headers |= {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML", "HX-Reselect": "#fault", "HX-Push-Url": "false"}
        html = services.page("errors/_error.html", kept, **context)
    elif path.startswith(FRAMED):
        html = services.page("embed/error.html", kept, look=readable_look(query, ())[0], **context)
    elif path in PAGES and fault.is_of_what_was_asked:
        html = PAGES[path](services, fault, query)
    else:
        html = services.page("errors/page.html", kept, **context)
    return answers.html(html, fault.status, headers)


def with_space(services: Services, state: State) -> list[str]:
    """The target with a space in front, where that is one token: most words are tokens only so."""
    spaced = f" {state.target}"
    try:
        tokenizer = services.models.tokenizer(state.model)
        return [spaced] if len(tokenizer.encode(spaced)) == 1 else []
    except ReaderError:
        return []


def kept_state(services: Services, query: QueryParams) -> State:
    """The reader's input as they gave it, for the form. An unknown model gives way to the default one;
    numbers set are left out, since they may be what is wrong."""
    model = query.get("model", "")
    model = model if model in services.models else ""
    text = query.get("text", services.models.entry(model).text).replace("\r\n", "\n")[: services.settings.max_text]
    state = State.readable(query, "bos", "eta", "optimizer", "steps")
    return state.replace(model=model, text=text, target=query.get("target", ""), at=query.get("at", ""))
