"""Generation: a text continued token by token, every choice laid open.

The URL is the whole state. A request makes tokens for a bounded time and shows what there is; while some are missing,
the fragment asks for itself again (with HTMX), or a link does (without JavaScript).
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, Response

from app.features.explore.routes import HEADERS
from app.features.generate.choice import ROWS, choice_view
from app.features.generate.view import cache_view, explored, text_view
from app.panels import errors
from app.request.generation import (
    Ask,
    asked,
    opening,
    whole,
    written,
)
from app.request.state import Cells
from app.services import Services, ServicesDep
from app.stores.budgeted import Busy
from app.stores.generations import MOST_TOKENS, Generation
from model.errors import ReaderError

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
        ask, have = asked(services.models, query, query.getlist("pick")), whole(query, "have", 0)
        generation = await services.generations.advance(
            ask.key(services.models), ask.n, min(seconds, FRAGMENT_SECONDS) if part else seconds
        )
        if part == GROWING and generation.complete(ask.n):
            part = FRAGMENT
            headers = {"HX-Retarget": f"#{FRAGMENT}", "HX-Reswap": "outerHTML"}
        elif part == FRAGMENT:
            headers = {"HX-Push-Url": ask.url()}
        html = await services.runs.in_thread(lambda: render(services, generation, ask, part, have))
    except (ReaderError, Busy) as error:
        fault = errors.fault_of(error)
        headers = {"Retry-After": "5"} if fault.status == 503 else {}
        if is_htmx:
            return errors.answer(request, fault, headers)
        return HTMLResponse(refused(services, fault, query), fault.status, HEADERS | headers)
    return HTMLResponse(html, headers=HEADERS | headers)


def render(services: Services, generation: Generation, ask: Ask, part: str, have: int) -> str:
    """HTML of the page, of the fragment, or of what was made since the page had `have` tokens."""
    made = generation.made[: ask.n]
    step = looked_at(ask, len(made))
    model = generation.model
    one = made[step].step if made else None
    state = explored(model, ask.state, one) if one else ask.state
    cells = Cells(state)
    cells.as_buttons |= len(state.url()) > LONG_HERE  # a choice has a hundred links, each with a long address
    context = {
        "ask": ask,
        "state": ask.state,
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


def looked_at(ask: Ask, n: int) -> int:
    """The step whose choice is shown: the one asked for or the last there is, else the first."""
    return max(min(ask.step or 0, n - 1), 0)


# -- the form


def fields(ask: Ask) -> dict[str, str]:
    """What stands in the form."""
    names = ("temperature", "top_k", "top_p", "seed", "n", "stop")
    return {"text": ask.state.text} | {name: written(getattr(ask, name)) for name in names}


def refused(services: Services, fault: errors.Fault, query: QueryParams) -> str:
    """The page with what is wrong, and the form as the reader filled it in."""
    state = errors.kept_state(services, query)
    plain = fields(Ask(state))
    given = {"text": query.get("text", opening(services.models.entry(state.model))).replace("\r\n", "\n")}
    given |= {name: query.get(name) or plain[name] for name in plain if name != "text"}
    return services.templates.render(
        "generate/page.html",
        ask=Ask(state, compare=query.get("compare", "1") != "0"),
        state=state,
        models=services.models,
        fields=given,
        fault=fault,
        most=MOST_TOKENS,
    )
