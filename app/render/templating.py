"""Jinja: every template escapes, an undefined name is an error, and files carry their version in the URL."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.render import numbers, tokens
from app.render.menu import menu, offer
from app.request.paths import share_url
from app.server.prefix import AppPath, rooted
from model.weights.hub import megabytes

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "static"
HTMX = ("js_lib_htmx", "static/htmx")  # a package and where its files lie in it

HTMX_CONFIG = {
    "includeIndicatorStyles": False,
    "allowEval": False,
    "selfRequestsOnly": True,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
    "responseHandling": [
        {"code": "204", "swap": False},
        {"code": "[2345]..", "swap": True},  # an error says what is wrong: it is shown
    ],
}

Context = dict[str, Any]  # what a template shows, by name

NO_START = "The model reads its start token before every text, as it did in training. Checked: the text alone."

YEAR = "public, max-age=31536000, immutable"


class Templates:
    """Renders templates with what all of them may use: `numbers`, `tokens`, `menu` (app.present), `asset`, `rooted`."""

    def __init__(self) -> None:
        self.env = jinja2.Environment(
            loader=jinja2.FileSystemLoader(ROOT / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.env.globals.update(
            numbers=numbers,
            tokens=tokens,
            rooted=rooted,
            share_url=share_url,
            asset=asset,
            menu=menu,
            offer=offer,
            megabytes=megabytes,
            NO_START=NO_START,
            htmx_config=json.dumps(HTMX_CONFIG),
        )

    def render(self, name: str, **context: Any) -> str:
        return self.env.get_template(name).render(context)


class VersionedFiles(StaticFiles):
    """Static files: kept for a year where the URL names their version, asked for again each time where it does not."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.status_code in (200, 304):
            named = scope["query_string"].startswith(b"v=")
            response.headers["Cache-Control"] = YEAR if named else "no-cache"
        return response


def asset(name: str) -> str:
    """The URL of a static file, e.g. `base.css` or `htmx/htmx.min.js`, with its version."""
    path = _htmx() / name.removeprefix("htmx/") if name.startswith("htmx/") else STATIC / name
    return f"{rooted(AppPath(f'/static/{name}'))}?v={_version(path, path.stat().st_mtime_ns)}"


@lru_cache(maxsize=256)
def _version(path: Path, changed: int) -> str:
    """A short name of the file's content; `changed` makes it be read again when the file is."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


@lru_cache(maxsize=1)
def _htmx() -> Path:
    return Path(str(resources.files(HTMX[0]) / HTMX[1]))
