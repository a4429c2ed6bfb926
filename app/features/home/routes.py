"""The first page: what this is, a sentence to try, a number to click."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from app.panels.sentence import sentence_view
from app.panels.shared import of_home
from app.request.state import DEFAULT_TEXT, State
from app.server.prefix import origin_of
from app.services import Services, ServicesDep
from model import Run

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Example:
    """A sentence and what there is to see in it."""

    text: str
    shows: str


EXAMPLES = (
    Example(DEFAULT_TEXT, "Who gets the drink? Heads look back at both names."),
    Example("The keys to the old house", "One key or many? The verb must agree across the words between."),
    Example("( red [ blue { green", "Which bracket closes first?"),
    Example("Tom Anna Jack Sarah Tom Anna Jack", "Seen before: a head looks at what followed last time."),
    Example("Once upon a time, there was a little", "How stories begin."),
    Example("A young dog is called a", "A fact, kept in the weights."),
)


@router.api_route("/", methods=["GET", "HEAD"])
async def home(request: Request, services: ServicesDep) -> Response:
    """The page, with the example sentence's real numbers."""
    state = State(text=services.models.entry("").text)
    html = await services.runs.use(state, lambda run: render(services, run, state, origin_of(request)))
    return HTMLResponse(html, headers={"Cache-Control": "no-cache"})


def render(services: Services, run: Run, state: State, origin: str) -> str:
    entry = services.models.entry("")
    here = State(text=entry.text, at=f"probs[{run.n_pos - 1},{run.target}]")
    examples = [(example, State(text=example.text).url()) for example in EXAMPLES if not entry.is_closed]
    return services.templates.render(
        "home/page.html",
        state=state,
        models=services.models,
        model=run.model,
        run=run,
        sentence=sentence_view(run, here),
        examples=examples,
        toy_url=State(model="toy", text=services.models.entry("toy").text).url(),
        target_field="",
        wrong="",
        shared=of_home(run, state),
        origin=origin,
    )
