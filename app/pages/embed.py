"""One live part alone: a page for a course to frame, or the fragment that HTMX puts in place."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from app.live.base import Here, Part, Settings
from app.live.show import part_html, settings_of
from app.live.table import PARTS
from app.pages.explore import HEADERS, checked
from app.params import Held, PageState
from app.present.why import why_view
from app.security import POLICY
from app.services import Services
from app.urls import State, absolute
from model import Run

router = APIRouter(include_in_schema=False)

# Other sites may frame a live part, and only that.
FRAMED = {"Content-Security-Policy": POLICY.replace("frame-ancestors 'self'", "frame-ancestors *")}


@router.api_route("/embed/{name}", methods=["GET", "HEAD"])
async def embed(request: Request, name: str, state: PageState, held: Held) -> Response:
    """The page, or for HTMX the part itself or the why panel."""
    part = PARTS.get(name)
    if part is None:
        raise HTTPException(404)
    settings = settings_of(part, request.query_params)
    if part.run and not {"model", "text"} & set(request.query_params):
        state = replace(part.run, at=state.at)
    asked = "HX-Request" in request.headers and "HX-History-Restore-Request" not in request.headers
    wants = request.headers.get("HX-Target", "part") if asked else ""
    origin = absolute(request, "")
    html = await held.runs.use(state, lambda run: render(held, part, run, state, settings, wants, origin))
    return HTMLResponse(html, headers=HEADERS | FRAMED)


def render(held: Services, part: Part, run: Run, state: State, settings: Settings, wants: str, origin: str) -> str:
    """`wants` is the id of what HTMX replaces; "" for the whole page."""
    selected = state.select(checked(run, state.at)) if state.at else state
    context = {"state": selected, "run": run, "model": run.model, "models": held.models}
    why = why_view(run, selected) if selected.at and wants in ("", "why") else None
    if wants == "why" and why:
        return held.templates.render("parts/_why.html", why=why, **context)
    html = part_html(held, part, run, state, settings, alone=not wants)
    if wants:
        return html
    here = Here(part, replace(state, at="", trail=(), row=None, col=None, order="size", offset=0), settings)
    return held.templates.render("live/embed.html", part=part, here=here, html=html, why=why, origin=origin, **context)
