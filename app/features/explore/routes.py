"""The explorer: a sentence, the map of the model, the values of one site, and why one number is what it is."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from app.dependencies import StateDep
from app.panels import errors
from app.panels.loading import model_ready
from app.panels.map.view import map_view
from app.panels.selection import ZONES, selected, target_field, untaken
from app.panels.sentence import heading, sentence_view
from app.panels.shared import of_number
from app.panels.values.view import values_view
from app.panels.why.view import why_view
from app.request import answers
from app.request.htmx import HtmxDep
from app.request.long_text import shorter
from app.request.paths import EXPLORE, PACKED_TEXT
from app.request.state import State
from app.server.prefix import origin_of
from app.services import Services, ServicesDep
from model import Run

router = APIRouter(include_in_schema=False, dependencies=[Depends(model_ready)])

errors.FORMS[EXPLORE] = "sentence/_ask.html"


@router.api_route(EXPLORE, methods=["GET", "HEAD"])
async def explore(request: Request, state: StateDep, services: ServicesDep, htmx: HtmxDep) -> Response:
    """The page, or the zone that HTMX asks for."""
    packed_text = request.scope.get("packed_text")
    if elsewhere := shorter(state, packed_text):
        return RedirectResponse(elsewhere, 303)
    PACKED_TEXT.set(packed_text)
    zone, origin = htmx.one_of(ZONES), origin_of(request)
    return answers.html(await services.runs.use(state, lambda run: render(services, run, state, zone, origin)))


def render(services: Services, run: Run, asked: State, zone: str, origin: str = "") -> str:
    """HTML of one zone or of the page. `origin` is this site's scheme and host."""
    state = selected(run, asked)
    shown = untaken(run, state)
    context = {"title": heading(run, shown.at), "fragment": bool(zone), "origin": origin}
    if not state.is_packed:  # what shares it would repeat the text many times
        context["shared"] = of_number(run, state)
    if zone in ("", "zones"):
        context |= {"sentence": sentence_view(run, shown), "map": map_view(run, shown)}
    if zone in ("", "zones", "values"):
        context["values"] = values_view(run, shown)
    if zone in ("", "zones", "why"):
        context["why"] = why_view(run, state)
    if not zone:
        context["target_field"] = target_field(run, asked)
    return services.page(ZONES.get(zone, "explore/page.html"), state, run, **context)
