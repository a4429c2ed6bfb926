"""What a request asks for, read from its query and checked in one place, for pages and JSON alike."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field, field_validator

from app.services import Services
from app.urls import DEFAULT_TEXT, MAX_TRAIL, State

LARGEST = 2**31 - 1


class RunQuery(BaseModel):
    """The parameters that name a run."""

    model: str = Field("", description="A name from /api/v1/models; left out: the server's default.")
    text: str | None = Field(
        None, description="The text to run; left out: the model's own example.", examples=[DEFAULT_TEXT]
    )
    target: str = Field(
        "",
        max_length=200,
        description="The token whose loss is computed: its text (one token), `id:17`, or `sequence` for the mean "
        "over the text's own next tokens; left out: the model's first guess.",
        examples=[" Mary"],
    )
    bos: bool = Field(True, description="Whether the start token is put in front.")

    @field_validator("text", "target")
    @classmethod
    def line_ends(cls, text: str | None) -> str | None:
        """A form sends every line end as two characters; the text has one."""
        return text.replace("\r\n", "\n") if text else text


class ViewQuery(RunQuery):
    """A run and what is looked at in it."""

    at: str = Field("", description="The address looked at.")
    row: int | None = Field(None, ge=0, le=LARGEST)
    col: int | None = Field(None, ge=0, le=LARGEST)
    order: Literal["size", "index"] = "size"
    offset: int = Field(0, ge=0, le=LARGEST)
    trail: str = ""


def services(request: Request) -> Services:
    """What the app holds."""
    found: Services = request.app.state.services
    return found


Held = Annotated[Services, Depends(services)]


def run_state(held: Services, query: RunQuery) -> State:
    """The run alone. Raises UnknownModel."""
    entry = held.models.entry(query.model)
    text = entry.text if query.text is None else query.text
    return State(model=query.model, text=text, target=query.target, bos=query.bos)


def view_state(query: Annotated[ViewQuery, Query()], held: Held) -> State:
    """The state of a page."""
    run = run_state(held, query)
    trail = tuple(filter(None, query.trail.split("~")))[-MAX_TRAIL:]
    return State(
        model=run.model, text=run.text, target=run.target, bos=run.bos,
        at=query.at.strip(), row=query.row, col=query.col, order=query.order, offset=query.offset, trail=trail,
    )  # fmt: skip


PageState = Annotated[State, Depends(view_state)]
