"""What a request asks for, read from its query and checked in one place, for pages and JSON alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field, StringConstraints, field_validator

from app.request.state import (
    DEFAULT_STEPS,
    DEFAULT_TEXT,
    MAX_TRAIL,
    State,
)
from app.services import Services, ServicesDep, services_of
from app.stores.catalogue import Catalogue
from model.address.parser import Calc, parse
from model.address.patch import MOST_CHANGES
from model.errors import ReaderError
from model.runtime.run import MOST_STEPS

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

    eta: float | None = Field(
        None, ge=0, le=1e6, allow_inf_nan=False, description="The learning rate η of `.step`; left out: one measured "
        "to lower this run’s loss.", examples=[0.01],
    )  # fmt: skip
    optimizer: Literal["sgd", "adamw"] = Field("sgd", description="How a step follows the slope.")
    steps: int = Field(DEFAULT_STEPS, ge=1, le=MOST_STEPS, description="How many learning steps a job takes.")
    changes: list[Annotated[str, StringConstraints(max_length=200)]] = Field(
        [], alias="set", max_length=MOST_CHANGES, description="Numbers set by you, each `site[index]=value`; may be "
        "repeated. The run goes on from them.", examples=[["blocks.1.attn.z[:,2,:]=0"]],
    )  # fmt: skip

    @field_validator("eta", mode="before")
    @classmethod
    def number(cls, eta: object) -> object:
        """An empty field asks for the default."""
        return eta.strip().replace(",", ".").replace("−", "-") or None if isinstance(eta, str) else eta

    @field_validator("changes")
    @classmethod
    def filled(cls, changes: list[str]) -> list[str]:
        """Empty fields of a form set nothing."""
        return [change.strip() for change in changes if change.strip()]

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
    nudge: float | None = Field(None, gt=0, le=1000, allow_inf_nan=False)
    after: int | None = Field(None, ge=1, le=MOST_STEPS, description="Look at the same place after so many steps.")

    @field_validator("nudge", "after", mode="before")
    @classmethod
    def asked(cls, given: object) -> object:
        """An empty field asks for nothing."""
        return given.strip().replace(",", ".") or None if isinstance(given, str) else given


class TextTooLong(ReaderError):
    """More characters than the host lets a text have."""

    code, part = "text_too_long", "text"


def checked_text(text: str, most: int) -> str:
    """Raises TextTooLong."""
    if len(text) > most:
        hint = f"At most {most:,} characters are read here; a model reads fewer tokens still."
        raise TextTooLong(f"The text has {len(text):,} characters.", hint)
    return text


async def texts_fit(request: Request) -> None:
    """For every route: a text in the query is not longer than the host allows. Raises TextTooLong."""
    for text in request.query_params.getlist("text"):
        checked_text(text, services_of(request).settings.max_text)


def run_state(services: Services, query: RunQuery) -> State:
    """The run alone. Raises UnknownModel, TextTooLong."""
    checked_text(query.text or "", services.settings.max_text)  # of a body too
    return run_of(services.models, query)


def run_of(models: Catalogue, query: RunQuery) -> State:
    """The same without an app. Raises UnknownModel."""
    entry = models.entry(query.model)
    text = entry.text if query.text is None else query.text
    return State(
        model=query.model, text=text, target=query.target, bos=query.bos,
        eta=query.eta, optimizer=query.optimizer, steps=query.steps, changes=tuple(query.changes),
    )  # fmt: skip


def view_state(query: Annotated[ViewQuery, Query()], services: ServicesDep) -> State:
    """The state of a page."""
    run = run_state(services, query)
    trail = tuple(filter(None, query.trail.split("~")))[-MAX_TRAIL:]
    return replace(
        run, at=place(query), row=query.row, col=query.col, order=query.order, offset=query.offset, trail=trail,
        nudge=query.nudge,
    )  # fmt: skip


def place(query: ViewQuery) -> str:
    """The address; after as many steps as a form asks for. Raises AddressError."""
    at = query.at.strip()
    if query.after is None or not at or isinstance(parsed := parse(at), Calc):
        return at
    return str(replace(parsed, quantity="step" if query.after == 1 else f"step({query.after})"))


PageState = Annotated[State, Depends(view_state)]
