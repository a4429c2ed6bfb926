"""How to share a page: its link, the HTML that frames it, how that looks. For HTMX, the inside of a dialog."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.datastructures import QueryParams
from starlette.responses import Response

from app.features.share import host_script
from app.panels.shared import LONGEST_URL, NotShared, Shared, What, asked_for
from app.render.templating import YEAR
from app.request import answers
from app.request.htmx import HtmxDep
from app.request.look import ACCENTS, THEMES, Look, readable_look
from app.request.paths import SHARE
from app.server.prefix import origin_of
from app.services import Services, ServicesDep
from model import Run
from model.errors import ReaderError

router = APIRouter(include_in_schema=False)

NARROWEST, WIDEST, HIGHEST = 200, 4000, 10_000  # pixels of a frame


class UnknownPage(ReaderError):
    """The address to be shared is of no page here."""

    code, part = "unknown_page", "url"


@router.api_route(SHARE, methods=["GET", "HEAD"])
async def share(
    request: Request, services: ServicesDep, htmx: HtmxDep,
    url: Annotated[str, Query(min_length=1, max_length=LONGEST_URL)],
    what: Annotated[Literal["why", "values"], Query(alias="as")] = "why",
) -> Response:  # fmt: skip
    """Everything about sharing the page at `url`, an address of this site."""
    origin = origin_of(request)
    try:
        asked = asked_for(services, url, origin, what)
    except NotShared:
        raise UnknownPage("Only pages of this site can be shared.", "Give the address of one of them.") from None
    query = request.query_params
    work = lambda run: render(services, asked.make(run), run, query, what, origin, htmx.wants_part)  # noqa: E731
    return answers.html(await services.runs.use(asked.state, work))


@router.api_route(host_script.PATH, methods=["GET", "HEAD"])
async def script(v: str = "") -> Response:
    """The script may be checked by its hash wherever it runs (CORS), and be kept while the URL names its version."""
    headers = {
        "Cache-Control": YEAR if v == host_script.version() else "no-cache",
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    return Response(host_script.content(), media_type="text/javascript", headers=headers)


def render(
    services: Services, shared: Shared, run: Run, query: QueryParams, what: What, origin: str, in_dialog: bool
) -> str:  # fmt: skip
    """A look or a size that cannot be used is said beside its field; the rest stands."""
    wrong: dict[str, str] = {}
    look = _look(query, shared, wrong)
    width, height = _size(query, shared, wrong)
    url, integrity = origin + host_script.url(), host_script.integrity()
    script = f'<script src="{url}" integrity="{integrity}" crossorigin="anonymous" async></script>'
    context = {
        "shared": shared, "origin": origin, "what": what, "look": look, "height": height, "wrong": wrong,
        "given": {name: query.get(name, "") for name in ("width", "height", "colour")},
        "link": origin + shared.path, "frame": shared.framed(look),
        "snippet": shared.snippet(origin, look, width, height),
        "script": script, "themes": THEMES, "accents": list(ACCENTS),
        "can_frame": services.settings.frame_ancestors != "'none'", "shows_numbers": shared.is_number,
        "in_dialog": in_dialog,
    }  # fmt: skip
    return services.page("share/_share.html" if in_dialog else "share/page.html", shared.state, run, **context)


def _look(query: QueryParams, shared: Shared, wrong: dict[str, str]) -> Look:
    """The look asked for. A colour of the reader's own goes before a named one."""
    own = query.get("colour", "").strip()
    pairs = [pair for pair in query.multi_items() if not (own and pair[0] == "accent")]
    look, errors = readable_look(QueryParams([*pairs, ("accent", own)] if own else pairs), shared.hides)
    wrong |= {"colour" if part == "accent" else part: f"{e.message} {e.hint}" for part, e in errors.items()}
    return look


def _size(query: QueryParams, shared: Shared, wrong: dict[str, str]) -> tuple[str, int]:
    """The frame's width as it is written (“100%” or pixels) and its height in pixels, as usual where not readable."""
    found = {"width": "100%", "height": str(shared.height)}
    for name, most, else_ in (("width", WIDEST, "100% or "), ("height", HIGHEST, "")):
        given = query.get(name, "").strip()
        if given.isdecimal() and NARROWEST <= int(given) <= most:
            found[name] = given
        elif given not in ("", else_.removesuffix(" or ")):
            wrong[name] = f"Write {else_}a number of pixels from {NARROWEST} to {most}."
    return found["width"], int(found["height"])
