"""Pages of prose that can be kept as files: a feature that has such pages registers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.request.state import State
from app.server.prefix import AppPath
from app.services import Services
from model import Run


@dataclass(frozen=True)
class Article:
    """`about` is what the file's template reads: number, title, lead, sections.

    `aimed` gives the state that the page shows (`asked`: the reader has named a text or a target), `html` its prose.
    """

    about: Any
    path: AppPath
    title: str
    aimed: Callable[[State, bool], State]
    html: Callable[[Services, Run, State], Markup]


ARTICLES: dict[str, Article] = {}
