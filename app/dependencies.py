"""What routes ask of a request that takes the services to answer: a page's state, a text that the host allows."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import QueryParams

from app.request.generation import GenerationQuery, GenerationState, opening
from app.request.state import After, RunQuery, State
from app.services import Services, ServicesDep, services_of
from app.stores.catalogue import Catalogue
from model.errors import ReaderError


class TextTooLong(ReaderError):
    """More characters than the host lets a text have."""

    code, part = "text_too_long", "text"


def check_text(text: str, most: int) -> None:
    """Raises TextTooLong."""
    if len(text) > most:
        hint = f"At most {most:,} characters are read here; a model reads fewer tokens still."
        raise TextTooLong(f"The text has {len(text):,} characters.", hint)


async def texts_fit(request: Request) -> None:
    """For every route: a text in the query is not longer than the host allows. Raises TextTooLong."""
    for text in request.query_params.getlist("text"):
        check_text(text, services_of(request).settings.max_text)


def run_state(services: Services, query: RunQuery) -> State:
    """The run that a query or a body names. Raises UnknownModel, TextTooLong."""
    check_text(query.text or "", services.settings.max_text)
    example = services.models.entry(query.model).text
    return State.of(query, text=example if query.text is None else query.text)


def page_state(services: Services, query: QueryParams) -> State:
    """The state that a page's query names. Raises RequestValidationError, UnknownModel, AddressError."""
    example = services.models.entry(query.get("model", "")).text
    return State.from_query(query, text=example).after(After.from_query(query).after)


def generation_state(models: Catalogue, query: QueryParams) -> GenerationState:
    """The state of the page of generation. Raises RequestValidationError, ReaderError."""
    example = opening(models.entry(query.get("model", "")).text)
    return GenerationState.from_query(query, text=example).in_range()


def generation_of(models: Catalogue, query: GenerationQuery) -> GenerationState:
    """The same of a program's query."""
    example = opening(models.entry(query.model).text)
    return GenerationState.of(query, text=example if query.text is None else query.text).in_range()


def state_asked(request: Request, services: ServicesDep) -> State:
    """The state of a page."""
    return page_state(services, request.query_params)


StateDep = Annotated[State, Depends(state_asked)]
