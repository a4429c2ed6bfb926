"""The first page: what this is, a sentence to try, a number to click."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from app.panels.loading import model_ready
from app.panels.sentence import sentence_view
from app.panels.shared import Asked, Shared, SharedPage, of_number, shares
from app.request import answers
from app.request.paths import HOME
from app.request.state import DEFAULT_TEXT, State
from app.server.prefix import origin_of, rooted
from app.services import Services, ServicesDep
from model import Run

router = APIRouter(include_in_schema=False, dependencies=[Depends(model_ready)])


@router.api_route(HOME, methods=["GET", "HEAD"])
async def home(request: Request, services: ServicesDep) -> Response:
    """The page, with the example sentence's real numbers."""
    state, origin = example(services), origin_of(request)
    return answers.html(await services.runs.use(state, lambda run: render(services, run, state, origin)))


def example(services: Services) -> State:
    return State(text=services.models.entry("").text)


def render(services: Services, run: Run, state: State, origin: str) -> str:
    return services.page(
        "home/page.html",
        state,
        run,
        sentence=sentence_view(run, state.select(f"probs[{run.n_pos - 1},{run.target}]")),
        default_text=DEFAULT_TEXT,
        target_field="",
        wrong="",
        shared=of_home(run, state),
        origin=origin,
    )


def of_home(run: Run, state: State) -> Shared:
    """The first page; its frame and picture show the likeliest next token of its sentence."""
    title = "Every Number: GPT-2 with every number clickable"
    return replace(of_number(run, state), title=title, path=rooted(HOME))


@shares(HOME)
def shared(services: Services, page: SharedPage) -> Asked:
    state = example(services)
    return Asked(state, lambda run: of_home(run, state))
