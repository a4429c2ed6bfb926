"""Pages for others to frame: one live part alone, why one number is what it is, a table of numbers.

None has anything of the site around it. How it looks comes from `theme`, `accent` and `hide` (app.request.look), which
all links and forms within it carry on. Each answers HTMX with the part of the page that it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.dependencies import StateDep, page_state
from app.panels.selection import ZONES, selected, untaken
from app.panels.sentence import heading, sentence_view
from app.panels.shared import CARDS, HIDES, Asked, NotShared, SharedPage, What, of_number, shares, what_of
from app.panels.values.view import values_view
from app.panels.why.view import why_view
from app.parts.base import Here, Part, Settings
from app.parts.show import can_hide, of_part, part_html, part_run
from app.parts.table import PARTS
from app.request import answers, look
from app.request.htmx import Htmx, HtmxDep
from app.request.look import Look, look_of
from app.request.paths import EMBED, EXPLORE
from app.request.state import State
from app.server.prefix import AppPath, origin_of, rooted
from app.services import Services, ServicesDep
from model import Run

router = APIRouter(include_in_schema=False)


@router.api_route(look.PATH, methods=["GET", "HEAD"])
async def stylesheet(request: Request) -> Response:
    """What `accent` and `hide` mean. The same query always gives the same rules."""
    controls = dict.fromkeys(name for part in PARTS.values() for name in can_hide(part))
    asked = look_of(request.query_params, [*look.SECTIONS, *controls])
    return Response(asked.css, media_type="text/css", headers={"Cache-Control": "public, max-age=86400"})


@dataclass(frozen=True)
class Frame:
    """What every page of this room is made with. `origin` is this site's scheme and host."""

    services: Services
    look: Look
    htmx: Htmx
    origin: str


@router.api_route(EMBED + "{name}", methods=["GET", "HEAD"])
async def embed(request: Request, name: str, state: StateDep, services: ServicesDep, htmx: HtmxDep) -> Response:
    """The page, or for HTMX a part of it."""
    query, origin = request.query_params, origin_of(request)
    if what := what_of(name):
        frame = Frame(services, look_of(query, HIDES[what]), htmx, origin)
        asked = state.replace(page=AppPath(EMBED + what), look=frame.look.query)
        return answers.html(await services.runs.use(asked, lambda run: numbers_page(frame, run, asked, what)))
    part = PARTS.get(name)
    if part is None:
        raise HTTPException(404)
    settings, frame = part.settings.from_query(query), Frame(services, look_of(query, can_hide(part)), htmx, origin)
    asked = part_state(frame, part, part_run(part, state, query), settings)
    html = await services.runs.use(asked, lambda run: part_page(frame, part, run, asked, settings))
    return answers.html(html, headers={"Vary": f"{answers.ANEW['Vary']}, HX-Current-URL"})


# -- numbers


def numbers_page(frame: Frame, run: Run, asked: State, what: What) -> str:
    """The explanation of one number, or a window of numbers with the explanation of the one chosen."""
    state = selected(run, asked)
    shown = untaken(run, state)
    zone = frame.htmx.one_of(ZONES)
    names = ZONES | {"": f"embed/{what}.html", "zones": "embed/_numbers.html"}
    return frame.services.page(
        names[zone],
        state,
        run,
        what=what,
        title=heading(run, shown.at),
        fragment=bool(zone),
        sentence=sentence_view(run, shown),
        why=why_view(run, state),
        values=values_view(run, shown) if what == "values" else None,
        look=frame.look,
        full=state.url(EXPLORE),
        shared=of_number(run, state, what),
        origin=frame.origin,
    )


# -- a live part


def part_state(frame: Frame, part: Part, state: State, settings: Settings) -> State:
    """The run of the part. Its numbers open on its own page where it stands alone: not in a lesson around it.

    Where HTMX asks, the page that it asks from tells.
    """
    if frame.htmx.wants_part and not frame.htmx.around.startswith(rooted(AppPath(EMBED))):
        return state
    return state.replace(page=AppPath(EMBED + part.name), page_settings=tuple(settings.pairs()), look=frame.look.query)


def part_page(frame: Frame, part: Part, run: Run, asked: State, settings: Settings) -> str:
    """The page, the part itself, or the why panel."""
    state, services = selected(run, asked) if asked.at else asked, frame.services
    wants_why = frame.htmx.target == "why"
    why = why_view(run, state) if state.at and (wants_why or not frame.htmx.wants_part) else None
    if wants_why and why:
        return services.page("why/_why.html", state, run, why=why)
    html = part_html(services, part, run, state, settings)
    if frame.htmx.wants_part:
        return html
    here = Here(part, state.select("").replace(order="size"), settings)
    return services.page(
        "parts/embed.html", state, run, part=part, here=here, html=html, why=why, look=frame.look, full=here.lesson_url,
        shared=of_part(run, part, state, settings), origin=frame.origin,
    )  # fmt: skip


@shares(f"{EMBED}*")
def shared_part(services: Services, page: SharedPage) -> Asked:
    part = PARTS.get(page.name)
    if part is None:
        raise NotShared
    settings, state = part.settings.from_query(page.query), part_run(part, page_state(services, page.query), page.query)
    return Asked(state, lambda run: of_part(run, part, state, settings))


CARDS |= {f"embed/{part.name}": (part.title, part.about) for part in PARTS.values()}
