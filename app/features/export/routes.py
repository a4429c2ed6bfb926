"""Exports: an explanation, a live part or a lesson as one file; numbers as data; a notebook that makes one again."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from markupsafe import Markup
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app.dependencies import StateDep
from app.features.export import view as export
from app.features.export.notebook import notebook
from app.features.export.view import TERMS, File, Origin
from app.panels import data
from app.panels.articles import ARTICLES
from app.parts.base import Here
from app.parts.show import part_html, part_run
from app.parts.table import PARTS
from app.request.answers import attachment
from app.request.page_state import Hint, PageState
from app.request.state import State
from app.server.prefix import origin_of
from app.services import Services, ServicesDep
from model import Explanation, Run
from model.address.parser import Calc, parse
from model.errors import AddressError, ReaderError

router = APIRouter(prefix="/export", include_in_schema=False)

MOST_TOKENS = 400  # of the text, shown at a file's head
UNFINISHED = 'data-hx-trigger="load'  # a part that is still being computed asks for itself again

Format = Literal["csv", "json", "npy"]


class ExportQuery(PageState):
    """How much of the site a file holds."""

    depth: Annotated[int, Hint("Write depth=0 for no inputs, 1 for those of the number, 2 for theirs as well.")] = (
        Field(1, ge=0, le=export.DEEPEST)
    )
    links: Annotated[bool, Hint("Write links=0 to leave out the links to this site.")] = True


Wanted = Annotated[ExportQuery, Query()]


class NotReady(ReaderError):
    """A part that is still being computed."""

    code = "steps_not_taken"


# -- files to read


@router.api_route("/why.html", methods=["GET", "HEAD"])
async def why(request: Request, state: StateDep, services: ServicesDep, wanted: Wanted) -> Response:
    """One explanation, with those of its inputs `depth` levels down."""
    origin = file_origin(request, links=wanted.links)

    def work(run: Run) -> Response:
        at = single(run, state.at)
        file = File(services, run, state.replace(at=at), origin)
        file.follow([file.explain(at, TERMS)], wanted.depth)
        root, *panels = file.panels()
        page = (file.on_site(at), at)
        return html_file(services, "why", file, at, page, root=root, panels=panels)

    return await services.runs.use(state, work)


@router.api_route("/lessons/{name}.html", methods=["GET", "HEAD"])
async def lesson(request: Request, name: str, state: StateDep, services: ServicesDep, wanted: Wanted) -> Response:
    """A whole lesson with all its live parts."""
    found = ARTICLES.get(name)
    if found is None:
        raise HTTPException(404)
    plain = State.of(state, "model", "text", "target", "bos")
    state = found.aimed(plain, bool({"target", "text"} & set(request.query_params)))
    origin = file_origin(request, links=wanted.links)

    def work(run: Run) -> Response:
        file = File(services, run, state, origin)
        html = finished(found.html(services, run, state))
        file.follow([html], wanted.depth)
        page = (origin.site + state.url(found.path), found.title)
        return html_file(services, "lesson", file, name, page, html, lesson=found.about)

    return await services.runs.use(state, work)


@router.api_route("/notebook.ipynb", methods=["GET", "HEAD"])
async def ipynb(request: Request, state: StateDep, services: ServicesDep, wanted: Wanted) -> Response:
    """A notebook that makes the number again in plain PyTorch."""
    origin = file_origin(request, links=wanted.links)

    def work(run: Run) -> Response:
        at = single(run, state.at)
        url = File(services, run, state, origin).on_site(at) if origin.site else ""
        body = notebook(run, at, url=url, version=origin.version)
        return attachment(body, "application/x-ipynb+json", f"why_{at}", "ipynb")

    return await services.runs.use(state, work)


# -- data


@router.api_route("/terms.{format}", methods=["GET", "HEAD"])
async def terms(state: StateDep, services: ServicesDep, format: Annotated[Format, Path()]) -> Response:
    """All terms of an explanation."""

    def work(run: Run) -> Response:
        e = run.explain(single(run, state.at), limit=data.EVERY_TERM)
        if format == "csv":
            return data.terms_csv(e)
        if format == "npy":
            return data.array(term_table(e), f"terms_of_{e.address}")
        return data.terms_json(e)

    return await services.runs.use(state, work)


@router.api_route("/values.{format}", methods=["GET", "HEAD"])
async def values(state: StateDep, services: ServicesDep, format: Annotated[Format, Path()]) -> Response:
    """The numbers at an address, which may name many."""

    def work(run: Run) -> Response:
        data.ready(run, state.at)
        if format == "json":
            answer = data.values_json(services, run, state.at)
            return attachment(bytes(answer.body), "application/json", str(parse(state.at)), "json")
        return data.VALUES[format](services, run, state.at)

    return await services.runs.use(state, work)


# -- a live part: after all others, since its name stands where theirs do


@router.api_route("/{name}.html", methods=["GET", "HEAD"])
async def part(request: Request, name: str, state: StateDep, services: ServicesDep, wanted: Wanted) -> Response:
    """One live part of a lesson in the state that its settings say."""
    found = PARTS.get(name)
    if found is None:
        raise HTTPException(404)
    settings = found.settings.from_query(request.query_params)
    state = part_run(found, state, request.query_params).select("").replace(order="size")
    origin = file_origin(request, links=wanted.links)

    def work(run: Run) -> Response:
        file = File(services, run, state, origin)
        html = finished(part_html(services, found, run, state, settings))
        file.follow([html], wanted.depth)
        page = (origin.site + Here(found, state, settings).url(), found.title)
        shown = [(key.replace("_", " "), value) for key, value in settings.pairs(**settings.model_dump())]
        return html_file(services, "part", file, name, page, html, part=found, settings=shown)

    return await services.runs.use(state, work)


# -- what they share


def single(run: Run, at: str) -> str:
    """The address in its usual spelling. Raises AddressError where it is not one number, StepsNotTaken."""
    if not at:
        raise AddressError("No number is named.", "Name one with at=, as in at=logits[0,5].")
    data.ready(run, at)
    parsed = parse(at)
    if not isinstance(parsed, Calc) and not run.check(parsed).is_single:
        run.explain(at)  # says which is the first of them; a single number is explained by whoever asks, and once
    return str(parsed)


def finished(html: str) -> str:
    """HTML of parts that have nothing left to compute. Raises NotReady."""
    if UNFINISHED in html:
        raise NotReady("Its learning steps are still being taken.", "Try again in a few seconds.")
    return html


def file_origin(request: Request, *, links: bool) -> Origin:
    """The site, where others can open it: none where it serves this machine alone, or no links are wanted."""
    site = origin_of(request)
    host = urlsplit(site).hostname or ""
    return Origin(site if links and not is_own_machine(host) else "", export.own_version())


def is_own_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def html_file(
    services: Services, kind: str, file: File, name: str, page: tuple[str, str], html: str = "", **context: Any
) -> Response:
    """The file, to be kept; `page` is the URL and the name of the page that it shows, `html` the piece at its head.

    Where a browser shows it at once, the policy that it holds is in force as well.
    """
    css = export.style()
    policy = export.policy(css)
    whole = {"run": file.run, "model": file.run.model, "origin": file.origin, "page_url": page[0], "page_name": page[1]}
    shown = {"html": file.piece(html), "panels": file.panels(), "css": Markup(css), "policy": policy} | context
    html = services.templates.render(f"export/{kind}.html", **whole, **shown, most_tokens=MOST_TOKENS)
    answer = attachment(html, "text/html; charset=utf-8", f"{kind}_{name}", "html")
    answer.headers["Content-Security-Policy"] = f"{policy}; frame-ancestors 'self'"
    return answer


def term_table(e: Explanation) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """A row for each term in index order: its factors, NaN where it has fewer than others, and last its product."""
    width = max((len(term.factors) for term in e.terms), default=0)
    table = np.full((len(e.terms), width + 1), np.nan)
    for row, term in zip(table, e.terms, strict=True):
        row[: len(term.factors)] = [factor.value for factor in term.factors]
        row[-1] = term.product
    return table
