"""The picture that a shared page's card shows: drawn from the real run, never from what a link claims."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.dependencies import StateDep
from app.features.share.card import Card, explanation_card, guesses_card
from app.features.share.card_picture import png
from app.panels.selection import selected
from app.panels.shared import CARD, CARDS
from app.services import ServicesDep
from model import Run
from model.errors import ReaderError

router = APIRouter(include_in_schema=False)

# What others may show on pages of their own.
HEADERS = {"Cache-Control": "public, max-age=86400", "Cross-Origin-Resource-Policy": "cross-origin"}


class UnknownCard(ReaderError):
    """A card of a page that is not there."""

    code, part = "unknown_page", "of"


@router.api_route(CARD, methods=["GET", "HEAD"])
async def card(
    request: Request, state: StateDep, services: ServicesDep, of: Annotated[str, Query(max_length=80)] = "",
    width: Literal["1200", "600", "300"] = "1200",
) -> Response:  # fmt: skip
    """A number's picture; with `of` (lesson/NAME, embed/NAME) that of a lesson or a live part."""
    title, about = CARDS.get(of, ("", ""))
    if of and not title:
        raise UnknownCard(
            f"No lesson and no part is called “{of}”.", "Write of=lesson/math or of=embed/guess, or leave it out."
        )
    asked = state if not of else state.select("")

    def made(run: Run) -> Card:
        return guesses_card(run, title, about) if of else explanation_card(run, selected(run, asked).at)

    def drawn(run: Run) -> bytes:
        key = (services.runs.key(asked), asked.eta, asked.optimizer, asked.at, of, width)
        return services.cards.get(key, lambda: png(made(run), int(width)))

    file = await services.runs.use(asked, drawn)
    headers = HEADERS | {"ETag": f'"{hashlib.sha256(file).hexdigest()[:32]}"'}
    if headers["ETag"] in request.headers.get("If-None-Match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file, media_type="image/png", headers=headers)
