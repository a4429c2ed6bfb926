"""Pages for others to frame: one live part alone, why one number is what it is, a table of numbers.

None has anything of the site around it. How it looks comes from `theme`, `accent` and `hide` (app.present.look), which
all links and forms within it carry on. Each answers HTMX with the part of the page that it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from app.live.base import Here, Part, Settings
from app.live.show import part_html, settings_of
from app.live.table import PARTS
from app.pages.explore import HEADERS, requested_zone, selected, untaken
from app.params import Held, PageState
from app.present import look
from app.present.look import Look, look_of
from app.present.sentence import heading, sentence_view
from app.present.values import values_view
from app.present.why import why_view
from app.security import POLICY
from app.services import Services
from app.urls import EXPLORE, State, rooted
from model import Run

router = APIRouter(include_in_schema=False)

# Other sites may frame these pages, and only these.
FRAMED = {"Content-Security-Policy": POLICY.replace("frame-ancestors 'self'", "frame-ancestors *")}


@dataclass(frozen=True)
class Kind:
    """A page of numbers: its name in the URL, what it is called, and what can be left out of it."""

    name: str
    title: str
    hides: Mapping[str, str]

    @property
    def path(self) -> str:
        return f"/embed/{self.name}"


WHY = Kind("why", "Why this number", look.TEXT | look.WHY)
VALUES = Kind("values", "Numbers of a run", look.TEXT | look.WHY | look.VALUES)
NUMBERS = {kind.name: kind for kind in (WHY, VALUES)}


def can_hide(part: Part) -> tuple[str, ...]:
    """What can be left out of a live part: each of its controls, and kinds of things that it shows."""
    return (*part.settings.model_fields, *look.RUN_FIELDS, *look.PART, *look.WHY)


@router.api_route(look.PATH, methods=["GET", "HEAD"])
async def stylesheet(request: Request) -> Response:
    """What `accent` and `hide` mean. The same query always gives the same rules."""
    every = {name: None for part in PARTS.values() for name in can_hide(part)}
    asked = look_of(request.query_params, [*look.SECTIONS, *every])
    return Response(asked.css, media_type="text/css", headers={"Cache-Control": "public, max-age=86400"})


@router.api_route("/embed/{name}", methods=["GET", "HEAD"])
async def embed(request: Request, name: str, state: PageState, held: Held) -> Response:
    """The page, or for HTMX a part of it."""
    if kind := NUMBERS.get(name):
        given = look_of(request.query_params, kind.hides)
        asked = replace(state, page=kind.path, look=given.query)
        zone = requested_zone(request.headers)
        html = await held.runs.use(asked, lambda run: numbers_page(held, kind, run, asked, given, zone))
        return HTMLResponse(html, headers=HEADERS | FRAMED)
    part = PARTS.get(name)
    if part is None:
        raise HTTPException(404)
    settings, given = settings_of(part, request.query_params), look_of(request.query_params, can_hide(part))
    asked, wants = part_state(request, part, state, settings, given), wanted(request)
    html = await held.runs.use(asked, lambda run: part_page(held, part, run, asked, settings, given, wants))
    return HTMLResponse(html, headers=HEADERS | {"Vary": f"{HEADERS['Vary']}, HX-Current-URL"} | FRAMED)


# -- numbers


def numbers_page(held: Services, kind: Kind, run: Run, asked: State, given: Look, zone: str) -> str:
    """The explanation of one number, or a window of numbers with the explanation of the one chosen."""
    state = selected(run, asked)
    shown = untaken(run, state)
    names = {"": f"embed/{kind.name}.html", "zones": "embed/_numbers.html"}
    return held.templates.render(
        names.get(zone, f"parts/_{zone}.html"),
        kind=kind,
        state=state,
        run=run,
        model=run.model,
        models=held.models,
        title=heading(run, shown.at),
        fragment=bool(zone),
        sentence=sentence_view(run, shown),
        why=why_view(run, state),
        values=values_view(run, shown) if kind is VALUES else None,
        look=given,
        full=state.url(EXPLORE),
    )


# -- a live part


def part_state(request: Request, part: Part, state: State, settings: Settings, given: Look) -> State:
    """The run of the part. Its numbers open on its own page where it stands alone: not in a lesson around it.

    Where HTMX asks, the page that it asks from tells.
    """
    if part.run and not {"model", "text"} & set(request.query_params):
        run = part.run
        state = replace(state, model=run.model, text=run.text, target=run.target, bos=run.bos)
    around = urlsplit(request.headers.get("HX-Current-URL", "")).path
    if wanted(request) and not around.startswith(rooted("/embed/")):
        return state
    return replace(state, page=f"/embed/{part.name}", own=tuple(settings.query()), look=given.query)


def wanted(request: Request) -> str:
    """The id of what HTMX replaces; "" for the whole page."""
    asks = "HX-Request" in request.headers and "HX-History-Restore-Request" not in request.headers
    return request.headers.get("HX-Target", "part") if asks else ""


def part_page(
    held: Services, part: Part, run: Run, asked: State, settings: Settings, given: Look, wants: str
) -> str:  # fmt: skip
    """The page, the part itself, or the why panel."""
    state = selected(run, asked) if asked.at else asked
    context = {"state": state, "run": run, "model": run.model, "models": held.models}
    why = why_view(run, state) if state.at and wants in ("", "why") else None
    if wants == "why" and why:
        return held.templates.render("parts/_why.html", why=why, **context)
    html = part_html(held, part, run, state, settings)
    if wants:
        return html
    here = Here(part, replace(state.select(""), order="size"), settings)
    return held.templates.render(
        "live/embed.html", part=part, here=here, html=html, why=why, look=given, full=here.lesson_url, **context
    )
