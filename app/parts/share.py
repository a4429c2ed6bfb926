"""A live part as others see it, and the run that it looks at."""

from __future__ import annotations

from starlette.datastructures import QueryParams

from app.panels.shared import Shared, about, bare, card_url
from app.parts.base import Here, Part, Settings
from app.request import look
from app.request.state import State
from model import Run


def of_part(run: Run, part: Part, state: State, settings: Settings) -> Shared:
    """A live part with its settings."""
    here = Here(part, bare(state), settings)
    return Shared(
        title=part.title,
        description=f"{part.about} {about(run)}",
        path=here.url(),
        frame=here.url(),
        card=card_url(here.state, of=f"embed/{part.name}"),
        height=part.rem * 16 + 120,
        hides=can_hide(part),
        state=here.state,
        is_number=False,
    )


def can_hide(part: Part) -> tuple[str, ...]:
    """What can be left out of a live part: each of its controls, and kinds of things that it shows."""
    return (*part.settings.model_fields, *look.RUN_FIELDS, *look.PART, *look.WHY)


def part_run(part: Part, state: State, query: QueryParams) -> State:
    """The state with the part's own run, where the query names neither a model nor a text."""
    if part.run is None or {"model", "text"} & set(query):
        return state
    run = part.run
    return state.replace(model=run.model, text=run.text, target=run.target, bos=run.bos)
