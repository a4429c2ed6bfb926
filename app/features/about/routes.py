"""What the numbers are, which models are here, what their heads do, what this is made of."""

from __future__ import annotations

import re
from importlib import metadata
from itertools import takewhile
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from app.request import answers
from app.request.htmx import HtmxDep
from app.request.state import State
from app.services import Services, ServicesDep
from app.stores.catalogue import Entry
from model.embedded.lookups import HEAD
from model.loading import EMBEDDED
from model.study.heads import KINDS

router = APIRouter(include_in_schema=False)

EXCERPT = 700  # characters of a model's own card


@router.api_route("/about", methods=["GET", "HEAD"])
async def about(services: ServicesDep, model: Annotated[str, Query()] = "") -> Response:
    """The page; the table of heads comes in by its own request."""
    entry = services.models.entry(model)
    html = services.page(
        "about/page.html",
        State(model=model, text=entry.text),
        excerpts={e.name: excerpt(e) for e in services.models},
        version=metadata.version,
        entry=entry,
    )
    return answers.html(html)


@router.api_route("/about/heads", methods=["GET", "HEAD"])
async def heads(services: ServicesDep, htmx: HtmxDep, model: Annotated[str, Query()] = "") -> Response:
    """The table of one model's heads: a page of its own, or the part of one that HTMX asks for."""
    entry = services.models.entry(model)
    return answers.html(await services.runs.in_thread(lambda: render_heads(services, entry, htmx.wants_part)))


def render_heads(services: Services, entry: Entry, is_part: bool) -> str:
    name = "" if entry.name == services.models.default else entry.name
    state = State(model=name, text=entry.text)
    return services.page(
        "about/_heads.html" if is_part else "about/heads_page.html",
        state,
        entry=entry,
        heads=services.models.heads(entry.name),
        kinds=KINDS,
        taught=(entry.config.n_layer - 1, HEAD) if entry.directory == EMBEDDED else None,
    )


def excerpt(entry: Entry) -> str:
    """The first paragraphs of the model's own card, up to a table, as plain text; "" where it has none."""
    if entry.card is None or not entry.card.is_file():
        return ""
    text = entry.card.read_text("utf-8", "replace")
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^#.*$|[*_`]", "", text, flags=re.MULTILINE).strip()
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text) if p.strip()]
    whole = " ".join(takewhile(lambda p: not p.startswith("|"), paragraphs[:2]))
    return whole if len(whole) <= EXCERPT else whole[:EXCERPT].rsplit(" ", 1)[0] + " …"
