"""Pages for others to frame: one live part alone, why one number is what it is, a table of numbers.

None has anything of the site around it. How it looks comes from `theme`, `accent` and `hide` (app.request.look), which
all links and forms within it carry on. Each answers HTMX with the part of the page that it asks for.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from app.dependencies import StateDep
from app.features.explore.routes import (
    HEADERS,
    ZONES,
    requested_zone,
    selected,
    untaken,
)
from app.panels.sentence import heading, sentence_view
from app.panels.shared import (
    HIDES,
    What,
    can_hide,
    of_number,
    of_part,
    part_run,
)
from app.panels.values.view import values_view
from app.panels.why.view import why_view
from app.parts.base import Here, Part, Settings
from app.parts.show import part_html, settings_of
from app.parts.table import PARTS
from app.request.look import Look, look_of
from app.request.paths import EMBED, EXPLORE
from app.request.state import State
from app.server.prefix import AppPath, origin_of, rooted
from app.services import Services, ServicesDep
from model import Run

router = APIRouter(include_in_schema=False)

# Pages of numbers, and what they are called.
NUMBERS: dict[str, What] = {"why": "why", "values": "values"}
TITLES: dict[What, str] = {"why": "Why this number", "values": "Numbers of a run"}


@router.api_route("/embed/{name}", methods=["GET", "HEAD"])
async def embed(request: Request, name: str, state: StateDep, services: ServicesDep) -> Response:
    """The page, or for HTMX a part of it."""
    origin = origin_of(request)
    if what := NUMBERS.get(name):
        given = look_of(request.query_params, HIDES[what])
        asked = state.replace(page=AppPath(f"/embed/{what}"), look=given.query)
        zone = requested_zone(request.headers)
        html = await services.runs.use(asked, lambda run: numbers_page(services, what, run, asked, given, zone, origin))
        return HTMLResponse(html, headers=HEADERS)
    part = PARTS.get(name)
    if part is None:
        raise HTTPException(404)
    settings, given = settings_of(part, request.query_params), look_of(request.query_params, can_hide(part))
    asked, wants = part_state(request, part, state, settings, given), wanted(request)
    html = await services.runs.use(
        asked, lambda run: part_page(services, part, run, asked, settings, given, wants, origin)
    )
    return HTMLResponse(html, headers=HEADERS | {"Vary": f"{HEADERS['Vary']}, HX-Current-URL"})


# -- numbers


def numbers_page(services: Services, what: What, run: Run, asked: State, given: Look, zone: str, origin: str) -> str:
    """The explanation of one number, or a window of numbers with the explanation of the one chosen."""
    state = selected(run, asked)
    shown = untaken(run, state)
    names = ZONES | {"": f"embed/{what}.html", "zones": "embed/_numbers.html"}
    return services.templates.render(
        names[zone],
        what=what,
        heading_text=TITLES[what],
        state=state,
        run=run,
        model=run.model,
        models=services.models,
        title=heading(run, shown.at),
        fragment=bool(zone),
        sentence=sentence_view(run, shown),
        why=why_view(run, state),
        values=values_view(run, shown) if what == "values" else None,
        look=given,
        full=state.url(EXPLORE),
        shared=of_number(run, state, what),
        origin=origin,
    )


# -- a live part


def part_state(request: Request, part: Part, state: State, settings: Settings, given: Look) -> State:
    """The run of the part. Its numbers open on its own page where it stands alone: not in a lesson around it.

    Where HTMX asks, the page that it asks from tells.
    """
    state = part_run(part, state, request.query_params)
    around = urlsplit(request.headers.get("HX-Current-URL", "")).path
    if wanted(request) and not around.startswith(rooted(AppPath(EMBED))):
        return state
    return state.replace(page=AppPath(f"/embed/{part.name}"), own=tuple(settings.query()), look=given.query)


def wanted(request: Request) -> str:
    """The id of what HTMX replaces; "" for the whole page."""
    asks = "HX-Request" in request.headers and "HX-History-Restore-Request" not in request.headers
    return request.headers.get("HX-Target", "part") if asks else ""


def part_page(
    services: Services, part: Part, run: Run, asked: State, settings: Settings, given: Look, wants: str, origin: str
) -> str:  # fmt: skip
    """The page, the part itself, or the why panel."""
    state = selected(run, asked) if asked.at else asked
    context: dict[str, Any] = {"state": state, "run": run, "model": run.model, "models": services.models}
    why = why_view(run, state) if state.at and wants in ("", "why") else None
    if wants == "why" and why:
        return services.templates.render("why/_why.html", why=why, **context)
    html = part_html(services, part, run, state, settings)
    if wants:
        return html
    here = Here(part, state.select("").replace(order="size"), settings)
    context |= {"full": here.lesson_url, "shared": of_part(run, part, state, settings), "origin": origin}
    return services.templates.render(
        "parts/embed.html", part=part, here=here, html=html, why=why, look=given, **context
    )
