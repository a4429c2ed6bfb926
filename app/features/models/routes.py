"""The models: what each takes, which are in memory, and fetching the published ones."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from app.features.models.view import cards
from app.request import answers
from app.request.htmx import HtmxDep
from app.request.state import State
from app.server.admin import is_local, may_fetch
from app.server.prefix import AppPath, rooted
from app.services import Services, ServicesDep
from model.errors import UnknownModel
from model.weights import hub

MODELS = AppPath("/models")

router = APIRouter(include_in_schema=False)

HEADERS = {"Cache-Control": "no-store"}


async def sent_token(request: Request) -> str:
    """The field `token` of a form."""
    return dict(parse_qsl((await request.body()).decode("utf-8", "replace"))).get("token", "")


Token = Annotated[str, Depends(sent_token)]


@router.api_route("/models", methods=["GET", "HEAD"])
async def models(request: Request, services: ServicesDep) -> Response:
    """The page."""
    return answers.html(page(request, services), headers=HEADERS)


@router.api_route("/models/{name}", methods=["GET", "HEAD"])
async def model(name: str, request: Request, services: ServicesDep, htmx: HtmxDep) -> Response:
    """One model's card, for HTMX, which takes its progress out of it, and all of it once that is over."""
    card = next((card for card in cards(services.models) if card["name"] == name), None)
    if card is None:
        raise UnknownModel(f"There is no model “{name[:80]}” here.")
    if not htmx.wants_part:
        return RedirectResponse(f"{rooted(MODELS)}#model-{name}", 303)
    html = services.templates.render("models/_model.html", card=card, **rights(request, services))
    whole = {} if card["where"] == "coming" else {"HX-Retarget": f"#model-{name}", "HX-Reselect": f"#model-{name}"}
    return answers.html(html, headers=HEADERS | whole)


@router.get("/models/{name}/loading")
async def loading(name: str, services: ServicesDep) -> Response:
    """How far a model's loading is; where it is over, HTMX is told to ask for its page again."""
    progress = services.models.loading(name)
    if progress is None:
        return answers.html("", headers=HEADERS | {"HX-Refresh": "true"})
    return answers.html(services.templates.render("loading/_loading.html", loading=progress), headers=HEADERS)


@router.post("/models/{name}/get")
async def get(name: str, request: Request, services: ServicesDep, token: Token) -> Response:
    """Begin to fetch a published model, or go on with it; then back to its card."""
    published = hub.published(name)
    if published is None:
        raise UnknownModel(f"There is no published model “{name[:80]}”.")
    if not may_fetch(request, services.settings, token):
        return answers.html(page(request, services, refused=name, had_token=bool(token)), 403, HEADERS)
    if name not in services.models:
        services.models.downloads.start(published)
    return RedirectResponse(rooted(MODELS), 303)


@router.post("/models/{name}/stop")
async def stop(name: str, request: Request, services: ServicesDep, token: Token) -> Response:
    """Call a download off; what has come is kept."""
    if not may_fetch(request, services.settings, token):
        return answers.html(page(request, services, refused=name, had_token=bool(token)), 403, HEADERS)
    services.models.downloads.cancel(name)
    return RedirectResponse(rooted(MODELS), 303)


def page(request: Request, services: Services, refused: str = "", had_token: bool = False) -> str:
    """HTML of the page. `refused` is the model whose download this request may not touch."""
    return services.page(
        "models/page.html",
        State(text=services.models.entry("").text),
        cards=cards(services.models),
        used=services.models.loaded.nbytes,
        budget=services.models.loaded.budget,
        coming=bool(services.models.downloads.current),
        refused=refused,
        had_token=had_token,
        **rights(request, services),
    )


def rights(request: Request, services: Services) -> dict[str, bool]:
    """What a card shows: a button, a button with a field for the host's token, or who may."""
    settings = services.settings
    free = settings.downloads == "local" and is_local(request, settings)
    return {"free": free, "by_token": bool(settings.admin_token.get_secret_value())}
