"""Generation: a text continued token by token, every choice laid open.

The URL is the whole state. A request makes tokens for a bounded time and shows what there is; while some are missing,
the fragment asks for itself again (with HTMX), or a link does (without JavaScript).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, Response

from app.dependencies import generation_state
from app.features.explore.routes import HEADERS
from app.features.generate.choice import ROWS, choice_view
from app.features.generate.view import cache_view, explored, text_view
from app.panels import errors
from app.render.links import Links
from app.request.generation import MOST_TOKENS, GenerationState, opening
from app.request.page_state import Hint, PageState, written
from app.services import Services, ServicesDep
from app.stores.budgeted import Busy
from app.stores.generations import Generation, key_of
from model.errors import ReaderError


class Growing(PageState):
    """`have` are the tokens that the page shows already."""

    have: Annotated[int, Hint("Write a number such as 0.")] = Field(0, ge=0)


router = APIRouter(include_in_schema=False)

FRAGMENT = "generation"  # all that the settings change
GROWING = "coming"  # the place of the tokens still missing, which asks for them
FRAGMENT_SECONDS = 0.25  # with HTMX, tokens appear as they are made
LONG_HERE = 160  # characters of the link to a run, from which on numbers are buttons


@router.api_route("/generate", methods=["GET", "HEAD"])
async def generate(request: Request, services: ServicesDep) -> Response:
    """The page, or the fragment that HTMX asks for."""
    query = request.query_params
    is_htmx = "HX-Request" in request.headers and "HX-History-Restore-Request" not in request.headers
    part = request.headers.get("HX-Target", "") if is_htmx else ""
    seconds = services.settings.generate_seconds
    headers: dict[str, str] = {}
    try:
        ask, have = generation_state(services.models, query), Growing.from_query(query).have
        generation = await services.generations.advance(
            key_of(services.models, ask), ask.n, min(seconds, FRAGMENT_SECONDS) if part else seconds
        )
        if part == GROWING and generation.complete(ask.n):
            part = FRAGMENT
            headers = {"HX-Retarget": f"#{FRAGMENT}", "HX-Reswap": "outerHTML"}
        elif part == FRAGMENT:
            headers = {"HX-Push-Url": ask.url()}
        html = await services.runs.in_thread(lambda: render(services, generation, ask, part, have))
    except (ReaderError, RequestValidationError, Busy) as error:
        fault = errors.fault_of(error)
        headers = {"Retry-After": "5"} if fault.status == 503 else {}
        if is_htmx:
            return errors.answer(request, fault, headers)
        return HTMLResponse(refused(services, fault, query), fault.status, HEADERS | headers)
    return HTMLResponse(html, headers=HEADERS | headers)


def render(services: Services, generation: Generation, ask: GenerationState, part: str, have: int) -> str:
    """HTML of the page, of the fragment, or of what was made since the page had `have` tokens."""
    made = generation.made[: ask.n]
    step = looked_at(ask, len(made))
    model = generation.model
    one = made[step].step if made else None
    state = explored(model, ask.run, one) if one else ask.run
    cells = Links(state)
    cells.as_buttons |= len(state.url()) > LONG_HERE  # a choice has a hundred links, each with a long address
    context = {
        "ask": ask,
        "state": ask.run,
        "model": model,
        "text": text_view(generation, ask, step),
        "step": step,
        "cache": cache_view(model, [each.step for each in made], cells),
    }
    if part == GROWING:
        return services.templates.render("generate/_growing.html", have=have, growing=True, **context)
    context |= {
        "models": services.models,
        "fields": fields(ask),
        "fault": None,
        "most": MOST_TOKENS,
        "n_listed": ROWS,
        "have": 0,
        "choice": choice_view(model, one.choice, cells, token=one.token, first=ask.first) if one else None,
        "explored": state,
        "fragment": part == FRAGMENT,
    }
    return services.templates.render(
        "generate/_generation.html" if part == FRAGMENT else "generate/page.html", **context
    )


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
    state = errors.kept_state(services, query)
    ask = GenerationState(model=state.model, text=state.text, bos=state.bos, compare=query.get("compare", "1") != "0")
    plain = fields(ask)
    given = {"text": query.get("text", opening(services.models.entry(state.model).text)).replace("\r\n", "\n")}
    given |= {name: query.get(name) or plain[name] for name in plain if name != "text"}
    return services.templates.render(
        "generate/page.html",
        ask=ask,
        state=state,
        models=services.models,
        fields=given,
        fault=fault,
        most=MOST_TOKENS,
    )
