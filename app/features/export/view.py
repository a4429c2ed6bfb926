"""A part of the site as one file, for readers without a server: what it shows, and why its numbers are what they are.

An explanation's file holds its panel and those of the numbers it is made from; a live part's, the part as it stands and
the panels of the numbers that it shows. Numbers are found where a reader finds them: as links of the pieces' own HTML.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from markupsafe import Markup

from app.features.export.html import Leads, links_in, stand_alone
from app.panels import steps
from app.panels.why.panel import WhyView
from app.panels.why.terms import PAGE
from app.panels.why.view import why_view
from app.request.long_text import shorter
from app.request.paths import EXPLORE
from app.request.state import State
from app.services import Services
from model import Run
from model.address.parser import Calc, parse
from model.errors import ReaderError

STATIC = Path(__file__).resolve().parents[3] / "static"
STYLES = ("base.css", "values.css", "why.css", "lesson.css", "export.css")
RUN = {"model", "text", "target", "bos", "eta", "optimizer", "steps", "set"}

TERMS = 100  # listed of the number that a file is about; of the others as many as a page lists
MOST = (0, 150, 400)  # panels beside the first, by how deep the inputs are followed
DEEPEST = len(MOST) - 1


@dataclass(frozen=True)
class Panel:
    """One number of the file, and where a reader finds it: `id` is its address."""

    id: str
    title: str
    value: str
    html: Markup


@dataclass(frozen=True)
class Origin:
    """Where the file comes from. `site` is "" where no one else could open it."""

    site: str
    version: str


class File:
    """Pieces of HTML of one run, and panels for the numbers in them."""

    def __init__(self, services: Services, run: Run, state: State, origin: Origin) -> None:
        self.services, self.run, self.origin = services, run, origin
        self.state = state.replace(trail=(), offset=0, row=None, col=None, nudge=None)
        self._own = _run_in(self.state.url())
        self._found: dict[str, tuple[WhyView, str]] = {}

    def explain(self, at: str, limit: int = PAGE) -> str:
        """The panel of one number, to be part of the file. Returns its HTML as a page has it."""
        state = self.state.replace(at=at)
        view = replace(
            why_view(self.run, state, limit=limit),
            trail=(), tabs=(), order=(), pager=(), page="", nudge=None, whatif="", downloads=None, hidden=(),
        )  # fmt: skip
        context = {"run": self.run, "model": self.run.model, "models": self.services.models}
        html = self.services.templates.render("why/_why.html", why=view, state=state, **context)
        self._found[at] = view, html
        return html

    def follow(self, html: Iterable[str], depth: int) -> None:
        """Explain the numbers that `html` shows, then those that their explanations show, `depth` levels."""
        level = list(html)
        for most in MOST[1 : depth + 1]:
            room = most - len(self._found)
            level = [self.explain(at) for at in self._numbers(level)[: max(room, 0)]]

    def _numbers(self, pieces: list[str]) -> list[str]:
        """Single numbers shown in these pieces and not explained yet: those with a place of their own first."""
        asked = (self._address(href, at) for html in pieces for href, at in links_in(html))
        new = [at for at in dict.fromkeys(filter(None, asked)) if at not in self._found and self._is_number(at)]
        return sorted(new, key=lambda at: at.startswith("calc("))

    def _is_number(self, at: str) -> bool:
        try:
            parsed = parse(at)
            if "partial(" in at or steps.must_wait(self.run, at):
                return False
            return isinstance(parsed, Calc) or self.run.check(parsed).is_single
        except ReaderError:
            return False

    def _address(self, href: str, at: str) -> str:
        """The address that a link of this run selects, in its usual spelling; "" where it selects none."""
        if not at:
            at = dict(parse_qsl(urlsplit(href).query)).get("at", "")
            if at and _run_in(href) != self._own:
                return ""
        try:
            return str(parse(at)) if at else ""
        except ReaderError:
            return ""

    # -- as it stands in the file

    def on_site(self, at: str) -> str:
        """Where the site explains a number; a long text is packed, since many links may name it."""
        state = self.state.select(at)
        return self.origin.site + (shorter(state, None) or state.url(EXPLORE))

    def leads(self) -> Leads:
        """Where the links of a piece lead."""

        def leads(href: str, at: str) -> str:
            found = self._address(href, at)
            if found in self._found:
                return f"#{found}"
            if not self.origin.site:
                return ""
            if at:
                return self.on_site(at)
            return self.origin.site + href if href.startswith("/") else ""

        return leads

    def piece(self, html: str, prefix: str = "") -> Markup:
        """HTML for the file."""
        return Markup(stand_alone(html, self.leads(), prefix))

    def panels(self) -> list[Panel]:
        """All numbers explained so far, in the order in which they were met."""
        return [
            Panel(at, view.title, view.value, self.piece(html, f"{at}:")) for at, (view, html) in self._found.items()
        ]


def _run_in(url: str) -> list[tuple[str, str]]:
    """The parameters of a link that name its run."""
    return sorted(pair for pair in parse_qsl(urlsplit(url).query) if pair[0] in RUN)


# -- what every file holds


def style() -> str:
    """The site's own styles."""
    return "\n".join((STATIC / name).read_text("utf-8") for name in STYLES)


def policy(css: str) -> str:
    """A content security policy under which a file asks for nothing: its own style, and no more."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def own_version() -> str:
    """This program's version; "" where it is not installed as a package."""
    try:
        return version("every-number")
    except PackageNotFoundError:
        return ""
