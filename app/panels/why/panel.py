"""What the why panel shows, as `templates/why/_why.html` draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.panels.why.ends import End, Linked
from app.panels.why.links import FORM, Links
from app.panels.why.navigation import Choice
from app.panels.why.pictures import Picture
from app.render.templating import Context

MOST_READERS = 6


@dataclass(frozen=True)
class WhyView:
    """Everything the panel shows. Without `value` it shows a site and asks for a number.

    A Context is what the template named like its field shows: `after` is drawn by `_after.html`.
    """

    title: str
    address: str
    sentence: Markup
    trail: Sequence[Context]
    formula: Markup
    hidden: Sequence[tuple[str, str]]
    whereabouts: Sequence[tuple[str, Markup]] = ()
    value: str = ""
    tabs: Sequence[Context] = ()
    picture: Picture | None = None
    figure: Picture | None = None  # the running total
    steps: Sequence[tuple[Markup, Markup]] = ()  # of the formula, each with its value
    table: Context | None = None
    order: Sequence[Choice] = ()
    pager: Sequence[Choice] = ()
    page: str = ""
    check: Context | None = None
    end: End | None = None
    made_from: Sequence[Linked] = ()
    used_by: Sequence[Linked] = ()
    more_readers: int = 0
    readers: str = "Used by"
    places: Sequence[tuple[str, Linked]] = ()
    notes: Sequence[str] = ()
    unit: str = ""
    after: Context | None = None
    waiting: Context | None = None
    nudge: Context | None = None
    whatif: str = ""
    downloads: Context | None = None

    form: str = FORM
    action: str = ""  # where its forms lead
    framed: bool = False  # in an embed: links that lead out of it get a window of their own
    share: str = ""  # how to share it


def hidden(links: Links) -> Sequence[tuple[str, str]]:
    """Fields of the form that carries the run where numbers are buttons."""
    return links.fields if links.as_buttons else ()
