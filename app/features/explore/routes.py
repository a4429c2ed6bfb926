"""The explorer: a sentence, the map of the model, the values of one site, and why one number is what it is."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.dependencies import StateDep
from app.panels import steps
from app.panels.map.view import map_view
from app.panels.sentence import heading, sentence_view, writable
from app.panels.shared import of_number
from app.panels.values.view import values_view
from app.panels.why.view import why_view
from app.render.places import chosen, default_address
from app.request.long_text import shorter
from app.request.paths import PACKED_TEXT
from app.request.state import State
from app.server.prefix import origin_of
from app.services import Services, ServicesDep
from model import Run
from model.address.parser import Calc, parse
from model.errors import AddressError
from model.explain.expression import number

router = APIRouter(include_in_schema=False)

ZONES = {"zones": "explore/_zones.html", "values": "values/_values.html", "why": "why/_why.html"}  # id -> its template

# The same URL answers a page or a part of it, and is asked for anew each time.
HEADERS = {"Vary": "HX-Request, HX-Target, HX-History-Restore-Request", "Cache-Control": "no-cache"}


@router.api_route("/explore", methods=["GET", "HEAD"])
async def explore(request: Request, state: StateDep, services: ServicesDep) -> Response:
    """The page, or the zone that HTMX asks for."""
    packed_text = request.scope.get("packed_text")
    if elsewhere := shorter(state, packed_text):
        return RedirectResponse(elsewhere, 303)
    PACKED_TEXT.set(packed_text)
    zone = requested_zone(request.headers)
    origin = origin_of(request)
    html = await services.runs.use(state, lambda run: render(services, run, state, zone, origin))
    return HTMLResponse(html, headers=HEADERS)


def requested_zone(headers: Headers) -> str:
    """The id of the part that is to be replaced; "" for the whole page."""
    if "HX-Request" not in headers or "HX-History-Restore-Request" in headers:
        return ""
    target = headers.get("HX-Target", "")
    return target if target in ZONES else ""


def render(services: Services, run: Run, asked: State, zone: str, origin: str = "") -> str:
    """HTML of one zone or of the page. `origin` is this site's scheme and host."""
    state = selected(run, asked)
    shown = untaken(run, state)
    context = {
        "state": state,
        "run": run,
        "model": run.model,
        "models": services.models,
        "title": heading(run, shown.at),
        "fragment": bool(zone),
        "origin": origin,
    }
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
    return services.templates.render(ZONES.get(zone, "explore/page.html"), **context)


def untaken(run: Run, state: State) -> State:
    """What the page shows beside the why panel: the place before its steps, where it does not take them itself."""
    if not steps.must_wait(run, state.at):
        return state
    return state.replace(at=str(steps.before(chosen(run, state.at))))


def target_field(run: Run, asked: State) -> str:
    """What stands in the form's target: nothing where the model chose it."""
    if run.is_sequence or not asked.target:
        return asked.target
    return writable(run.model, run.target)


def selected(run: Run, state: State) -> State:
    """The state with its address and trail checked and spelled in one way; the default address where none is given.

    The trail only says where the reader came from: what names nothing here is left out of it.
    """
    at = checked(run, state.at) if state.at else default_address(run)
    trail = []
    for address in state.trail:
        with suppress(AddressError):
            trail.append(checked(run, address))
    return state.replace(at=at, trail=tuple(trail))


def checked(run: Run, at: str) -> str:
    """The address in its usual spelling. Raises AddressError where it names nothing in this run."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        if not steps.must_wait(run, at):
            number(run, parsed)
    else:
        run.check(parsed)
    return str(parsed)
