"""What the why panel shows, as `templates/why/_why.html` draws it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from app.panels.why.check import Check
from app.panels.why.ends import End, Linked
from app.panels.why.links import FORM, Links
from app.panels.why.nudge import NudgeView
from app.panels.why.paging import Choice
from app.panels.why.pictures import Picture
from app.panels.why.steps import After, Waiting
from app.panels.why.table import Table
from app.panels.why.tabs import Tab
from app.panels.why.trail import Crumb
from app.render.templating import Context

MOST_READERS = 6


@dataclass(frozen=True)
class WhyView:
    """Everything the panel shows. Without `value` it shows a site and asks for a number."""

    title: str
    address: str
    whereabouts: tuple[tuple[str, Markup], ...]
    sentence: Markup
    trail: tuple[Crumb, ...]
    formula: Markup
    hidden: tuple[tuple[str, str], ...]
    value: str = ""
    tabs: tuple[Tab, ...] = ()
    picture: Picture | None = None
    figure: Picture | None = None  # the running total
    steps: tuple[tuple[Markup, Markup], ...] = ()  # of the formula, each with its value
    table: Table | None = None
    order: tuple[Choice, ...] = ()
    pager: tuple[Choice, ...] = ()
    page: str = ""
    check: Check | None = None
    end: End | None = None
    made_from: tuple[Linked, ...] = ()
    used_by: tuple[Linked, ...] = ()
    more_readers: int = 0
    readers: str = "Used by"
    places: tuple[tuple[str, Linked], ...] = ()
    notes: tuple[str, ...] = ()
    unit: str = ""
    after: After | None = None
    waiting: Waiting | None = None
    nudge: NudgeView | None = None
    whatif: str = ""
    downloads: Context | None = None

    form: str = FORM
    action: str = ""  # where its forms lead
    framed: bool = False  # in an embed: links that lead out of it get a window of their own
    share: str = ""  # how to share it


def hidden(links: Links) -> tuple[tuple[str, str], ...]:
    """Fields of the form that carries the run where numbers are buttons."""
    return tuple(links.fields) if links.as_buttons else ()
