"""Files of embeds: the stylesheet of a look, and the script for pages of other sites that embed this one."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.features.embed import host_script
from app.panels.shared import can_hide
from app.parts.table import PARTS
from app.request import look
from app.request.look import look_of

router = APIRouter(include_in_schema=False)


@router.api_route(look.PATH, methods=["GET", "HEAD"])
async def stylesheet(request: Request) -> Response:
    """What `accent` and `hide` mean. The same query always gives the same rules."""
    controls = dict.fromkeys(name for part in PARTS.values() for name in can_hide(part))
    asked = look_of(request.query_params, [*look.SECTIONS, *controls])
    return Response(asked.css, media_type="text/css", headers={"Cache-Control": "public, max-age=86400"})


@router.api_route(host_script.PATH, methods=["GET", "HEAD"])
async def script(v: str = "") -> Response:
    """The script may be checked by its hash wherever it runs (CORS), and be kept while the URL names its version."""
    age = "public, max-age=31536000, immutable" if v == host_script.version() else "no-cache"
    headers = {
        "Cache-Control": age,
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    return Response(host_script.content(), media_type="text/javascript", headers=headers)
