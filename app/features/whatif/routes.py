"""What if: set any number, or switch off a head, a neuron or a whole part, and compare the run with what it was."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import RedirectResponse, Response

from app.dependencies import StateDep
from app.features.whatif.view import changes_in_force, choices, neuron, whatif_view
from app.panels import errors
from app.panels.loading import model_ready
from app.panels.selection import target_field
from app.panels.sentence import sentence_view
from app.request import answers
from app.request.paths import WHATIF
from app.request.state import LARGEST, State
from app.services import Services, ServicesDep
from model import Run

router = APIRouter(include_in_schema=False, dependencies=[Depends(model_ready)])

errors.FORMS[WHATIF] = "sentence/_ask.html"

Whole = Annotated[int | None, Query(ge=0, le=LARGEST)]
Draft = Annotated[str, Query(max_length=200)]


@router.api_route(WHATIF, methods=["GET", "HEAD"])
async def whatif(
    state: StateDep, services: ServicesDep, block: Whole = None, number: Whole = None, draft: Draft = ""
) -> Response:
    """The page. `block` and `number` name a neuron to switch off, which then becomes part of the address.

    `draft` is a change that stands in the field to be edited; nothing is set before it is sent.
    """
    base = await services.runs.use(state.change(), lambda run: run)
    if number is not None:
        change = neuron(base, block or 0, number)
        return RedirectResponse(state.change(*state.changes, change).url(WHATIF), 303)
    return answers.html(await services.runs.use(state, lambda run: render(services, base, run, state, draft)))


def render(services: Services, base: Run, changed: Run, state: State, draft: str) -> str:
    plain = state.change()
    return services.page(
        "whatif/page.html",
        state,
        base,
        sentence=sentence_view(base, plain.select("loss")),
        target_field=target_field(base, state),
        wrong="",
        action=WHATIF,
        sets=changes_in_force(base, state),
        choices=choices(base),
        draft=draft,
        compared=whatif_view(base, changed, state) if state.changes else None,
    )
