"""Generation: a text continued token by token, every choice laid open.

The URL is the whole state. A request makes tokens for a bounded time and shows what there is; while some are missing,
the fragment asks for itself again (with HTMX), or a link does (without JavaScript).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.datastructures import QueryParams
from starlette.responses import Response

from app.dependencies import generation_state
from app.features.generate.choice import ROWS, choice_view
from app.features.generate.view import cache_view, explored, text_view
from app.panels import errors
from app.panels.loading import model_ready
from app.render.links import Links
from app.request import answers
from app.request.generation import MOST_TOKENS, GenerationState, opening
from app.request.htmx import HtmxDep
from app.request.page_state import Hint, PageState, written
from app.request.paths import GENERATE
from app.services import Services, ServicesDep
from app.stores.generations import Generation, key_of


class Growing(PageState):
    """`have` are the tokens that the page shows already."""

    have: Annotated[int, Hint("Write a number such as 0.")] = Field(0, ge=0)


router = APIRouter(include_in_schema=False, dependencies=[Depends(model_ready)])

FRAGMENT = "generation"  # all that the settings change
GROWING = "coming"  # the place of the tokens still missing, which asks for them
FRAGMENT_SECONDS = 0.25  # with HTMX, tokens appear as they are made
LONG_HERE = 160  # characters of the link to a run, from which on numbers are buttons


@router.api_route(GENERATE, methods=["GET", "HEAD"])
async def generate(request: Request, services: ServicesDep, htmx: HtmxDep) -> Response:
    """The page, or the fragment that HTMX asks for."""
    query, part = request.query_params, htmx.target
    ask, have = generation_state(services.models, query), Growing.from_query(query).have
    seconds = services.settings.generate_seconds
    seconds = min(seconds, FRAGMENT_SECONDS) if part else seconds
    generation = await services.generations.advance(key_of(services.models, ask), ask.n, seconds)
    headers: dict[str, str] = {}
    if part == GROWING and generation.complete(ask.n):
        part = FRAGMENT
        headers = {"HX-Retarget": f"#{FRAGMENT}", "HX-Reswap": "outerHTML"}
    elif part == FRAGMENT:
        headers = {"HX-Push-Url": ask.url()}
    html = await services.runs.in_thread(lambda: render(services, generation, ask, part, have))
    return answers.html(html, headers=headers)


def render(services: Services, generation: Generation, ask: GenerationState, part: str, have: int) -> str:
    """HTML of the page, of the fragment, or of what was made since the page had `have` tokens."""
    made = generation.made[: ask.n]
    step = looked_at(ask, len(made))
    model = generation.model
    one = made[step].step if made else None
    state = explored(model, ask.run, one) if one else ask.run
    links = Links(state)
    links.as_buttons |= len(state.url()) > LONG_HERE  # a choice has a hundred links, each with a long address
    context = {
        "ask": ask,
        "text": text_view(generation, ask, step),
        "step": step,
        "cache": cache_view(model, [each.step for each in made], links),
    }
    if part == GROWING:
        return services.page("generate/_growing.html", ask.run, have=have, growing=True, model=model, **context)
    context |= {
        "fields": fields(ask),
        "fault": None,
        "most": MOST_TOKENS,
        "n_listed": ROWS,
        "have": 0,
        "choice": choice_view(model, one.choice, links, token=one.token, first=ask.first) if one else None,
        "explored": state,
        "fragment": part == FRAGMENT,
    }
    template = "generate/_generation.html" if part == FRAGMENT else "generate/page.html"
    return services.page(template, ask.run, model=model, **context)


def looked_at(ask: GenerationState, n: int) -> int:
    """The step whose choice is shown: the one asked for or the last there is, else the first."""
    return max(min(ask.step or 0, n - 1), 0)


# -- the form


def fields(ask: GenerationState) -> dict[str, str]:
    """What stands in the form."""
    names = ("temperature", "top_k", "top_p", "seed", "n", "stop")
    return {"text": ask.text} | {name: written(getattr(ask, name)) for name in names}


def refused(services: Services, fault: errors.Fault, query: QueryParams) -> str:
    """The page with what is wrong, and the form as the reader filled it in."""
    kept = errors.kept_state(services, query)
    text = kept.text if "text" in query else opening(services.models.entry(kept.model).text)
    ask = GenerationState.readable(query, "compare").replace(model=kept.model, text=text, bos=kept.bos)
    given = {name: query.get(name) or plain for name, plain in fields(ask).items() if name != "text"}
    context = {"ask": ask, "fields": given | {"text": text}, "fault": fault, "most": MOST_TOKENS}
    return services.page("generate/page.html", kept, **context)


errors.PAGES[GENERATE] = refused
