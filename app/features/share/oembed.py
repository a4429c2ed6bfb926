"""oEmbed (oembed.com, version 1.0): what a site asks to show one of our addresses as a frame.

Only pages of this site are answered. The address that is asked about is read, never fetched.
"""

from __future__ import annotations

from typing import Annotated, Any
from xml.etree import ElementTree

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.panels.shared import (
    FRAME_WIDTH,
    LONGEST_URL,
    OEMBED,
    WIDTH,
    WIDTHS,
    NotShared,
    Shared,
    asked_for,
    picture_height,
)
from app.request.look import Look
from app.request.paths import HOME
from app.server.prefix import origin_of, rooted
from app.services import ServicesDep
from model.errors import ReaderError

router = APIRouter(include_in_schema=False)

LARGEST = 100_000  # pixels
AGE = 86400  # seconds that an answer may be kept


@router.api_route(OEMBED, methods=["GET", "HEAD"])
async def oembed(
    request: Request, services: ServicesDep, url: Annotated[str, Query(min_length=1, max_length=LONGEST_URL)],
    maxwidth: Annotated[int | None, Query(ge=1, le=LARGEST)] = None,
    maxheight: Annotated[int | None, Query(ge=1, le=LARGEST)] = None, format: str = "json",
) -> Response:  # fmt: skip
    """The frame of one page. 404 for addresses that are not such a page, 501 for other formats (section 2.3.4)."""
    if format not in ("json", "xml"):
        raise HTTPException(501, "oEmbed is answered as json or xml.")
    origin = origin_of(request)
    try:
        asked = asked_for(services, url, origin)
        shared = await services.runs.use(asked.state, asked.make)
    except (NotShared, ReaderError):
        raise HTTPException(404) from None
    found = answer(shared, origin, maxwidth or LARGEST, maxheight or LARGEST)
    headers = {"Cache-Control": f"public, max-age={AGE}", "Access-Control-Allow-Origin": "*"}
    if format == "xml":
        return Response(as_xml(found), media_type="text/xml", headers=headers)
    return JSONResponse(found, headers=headers)


def answer(shared: Shared, origin: str, max_width: int, max_height: int) -> dict[str, Any]:
    """The fields of type "rich". A picture is named where one fits into what is asked for."""
    width, height = min(FRAME_WIDTH, max_width), min(shared.height, max_height)
    found: dict[str, Any] = {
        "version": "1.0",
        "type": "rich",
        "title": shared.title,
        "provider_name": "Every Number",
        "provider_url": f"{origin}{rooted(HOME)}",
        "cache_age": AGE,
        "html": shared.snippet(origin, Look(), str(width), height),
        "width": width,
        "height": height,
    }
    fitting = (wide for wide in WIDTHS if wide <= max_width and picture_height(wide) <= max_height)
    if wide := next(fitting, 0):
        url = f"{origin}{shared.card}" + (f"&width={wide}" if wide != WIDTH else "")
        found |= {"thumbnail_url": url, "thumbnail_width": wide, "thumbnail_height": picture_height(wide)}
    return found


def as_xml(found: dict[str, Any]) -> bytes:
    """The same fields as elements of `oembed`."""
    root = ElementTree.Element("oembed")
    for name, value in found.items():
        ElementTree.SubElement(root, name).text = "".join(filter(allowed, str(value)))
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def allowed(sign: str) -> bool:
    """Whether XML 1.0 can hold it (section 2.2)."""
    return sign in "\t\n\r" or "\x20" <= sign <= "\ud7ff" or "\ue000" <= sign <= "\ufffd" or sign > "\uffff"
