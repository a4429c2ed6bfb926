"""Generation: a text continued token by token, every choice laid open.

The URL is the whole state. A request makes tokens for a bounded time and shows what there is; while some are missing,
the fragment asks for itself again (with HTMX), or a link does (without JavaScript).
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, Response

from app import errors
from app.ask import Ask, asked, opening, written
from app.generations import MOST_TOKENS, Generation
from app.pages.explore import HEADERS
from app.params import Held
from app.present.choice import ROWS, choice_view
from app.present.generation import cache_view, explored, text_view
from app.runs import Busy
from app.services import Services
from app.urls import Cells
from model.errors import ReaderError

router = APIRouter(include_in_schema=False)

FRAGMENT = "generation"
ASKING_AGAIN = "go-on"  # the id of the link that asks for the tokens still missing
FRAGMENT_SECONDS = 0.25  # with HTMX, tokens appear as they are made


@router.api_route("/generate", methods=["GET", "HEAD"])
async def generate(request: Request, held: Held) -> Response:
    """The page, or the fragment that HTMX asks for."""
    query = request.query_params
    is_htmx = "HX-Request" in request.headers and "HX-History-Restore-Request" not in request.headers
    part = is_htmx and request.headers.get("HX-Target") == FRAGMENT
    seconds = held.settings.generate_seconds
    try:
        ask = asked(held.models, query, query.getlist("pick"))
        generation = await held.generations.advance(
            ask.key(held.models), ask.n, min(seconds, FRAGMENT_SECONDS) if part else seconds
        )
        html = await held.runs.in_thread(lambda: render(held, generation, ask, part))
    except (ReaderError, Busy) as error:
        fault = errors.fault_of(error)
        headers = {"Retry-After": "5"} if fault.status == 503 else {}
        if is_htmx:
            return errors.answer(request, fault, headers)
        return HTMLResponse(refused(held, fault, query), fault.status, HEADERS | headers)
    pushed = {"HX-Push-Url": ask.url()} if part and request.headers.get("HX-Trigger") != ASKING_AGAIN else {}
    return HTMLResponse(html, headers=HEADERS | pushed)


def render(held: Services, generation: Generation, ask: Ask, part: bool) -> str:
    """HTML of the fragment or of the page."""
    made = generation.made[: ask.n]
    step = looked_at(ask, len(made))
    model = generation.model
    one = made[step].step if made else None
    state = explored(model, ask.state, one) if one else ask.state
    choice = choice_view(model, one.choice, Cells(state), token=one.token, first=ask.first) if one else None
    context = {
        "ask": ask,
        "state": ask.state,
        "model": model,
        "models": held.models,
        "fields": fields(ask),
        "fault": None,
        "most": MOST_TOKENS,
        "n_listed": ROWS,
        "text": text_view(generation, ask, step),
        "step": step,
        "one": one,
        "choice": choice,
        "explored": state,
        "cache": cache_view(model, [each.step for each in made]),
        "fragment": part,
    }
    return held.templates.render("parts/_generate.html" if part else "pages/generate.html", **context)


def looked_at(ask: Ask, n: int) -> int:
    """The step whose choice is shown: the one asked for or the last there is, else the first."""
    return max(min(ask.step or 0, n - 1), 0)


# -- the form


def fields(ask: Ask) -> dict[str, str]:
    """What stands in the form."""
    names = ("temperature", "top_k", "top_p", "seed", "n", "stop")
    return {"text": ask.state.text} | {name: written(getattr(ask, name)) for name in names}


def refused(held: Services, fault: errors.Fault, query: QueryParams) -> str:
    """The page with what is wrong, and the form as the reader filled it in."""
    state = errors.kept_state(held, query)
    plain = fields(Ask(state))
    given = {"text": query.get("text", opening(held.models.entry(state.model))).replace("\r\n", "\n")}
    given |= {name: query.get(name) or plain[name] for name in plain if name != "text"}
    return held.templates.render(
        "pages/generate.html",
        ask=Ask(state, compare=query.get("compare", "1") != "0"),
        state=state,
        models=held.models,
        fields=given,
        fault=fault,
        most=MOST_TOKENS,
    )
