"""A page of this site as others see it: its name, its picture, and how it is framed elsewhere.

Pages make a `Shared` of what they show. Each feature whose pages can be shared says with `@shares(PATH)` what lies
behind an address; `/share`, `/oembed` and the cards in a page's head read it here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Literal
from urllib.parse import quote, unquote, urlencode, urlsplit

from fastapi.exceptions import RequestValidationError
from starlette.datastructures import QueryParams

from app.dependencies import page_state
from app.panels import steps
from app.panels.sentence import heading
from app.render.places import default_address
from app.request import look
from app.request.look import Look
from app.request.paths import EMBED, EXPLORE, encoded, link
from app.request.state import State
from app.server.prefix import ROOT, AppPath, Url, rooted
from app.services import Services
from model import Run

What = Literal["why", "values"]

CARD, OEMBED = AppPath("/card.png"), AppPath("/oembed")
WIDTH, HEIGHT = 1200, 630  # pixels of a card
WIDTHS = (1200, 600, 300)  # that it can be had in
FRAME_WIDTH = 720
HEIGHTS: dict[What, int] = {"why": 900, "values": 860}
LONGEST_URL = 16_000  # characters of an address
LONGEST_TEXT = 120  # characters of a text that is quoted
HIDES: dict[What, tuple[str, ...]] = {
    "why": (*look.TEXT, *look.WHY),
    "values": (*look.TEXT, *look.WHY, *look.VALUES),
}


def what_of(name: str) -> What | None:
    """The page of numbers of that name."""
    return next((what for what in HIDES if what == name), None)


class NotShared(Exception):
    """The address is not one of a page of this site that can be framed."""


@dataclass(frozen=True)
class Shared:
    """`frame` is the page for a frame, `hides` what can be left out of it, `height` a good guess, `card` the picture.

    `is_number` says that the frame shows numbers of a run, else a live part.
    """

    title: str
    description: str
    path: Url
    frame: Url
    card: Url
    height: int
    hides: tuple[str, ...]
    state: State
    is_number: bool = True

    @property
    def alt(self) -> str:
        """What the picture shows, in words."""
        return f"A card: {self.title}, with what it is made from. {self.description}"

    def framed(self, given: Look) -> str:
        """The page for a frame, in a look."""
        more = encoded(given.query)
        return f"{self.frame}{'&' if '?' in self.frame else '?'}{more}" if more else self.frame

    def snippet(self, origin: str, given: Look, width: str = "100%", height: int = 0) -> str:
        """The HTML that frames it. `origin` is this site's scheme and host."""
        src = escape(origin + self.framed(given), quote=True)
        title = escape(self.title, quote=True)
        size = f'width="{escape(width)}" height="{height or self.height}"'
        return f'<iframe src="{src}" title="{title}" {size} loading="lazy" style="border:0"></iframe>'

    def oembed(self, origin: str, form: Literal["json", "xml"] = "json") -> Url:
        """Where the frame's oEmbed answer is."""
        query = urlencode({"url": origin + self.path, "format": form}, quote_via=quote)
        return Url(f"{rooted(OEMBED)}?{query}")


def picture_height(width: int) -> int:
    return round(HEIGHT * width / WIDTH)


# -- what pages make


def of_number(run: Run, state: State, what: What = "why") -> Shared:
    """A number of a run, or several: an explanation, or the table where it stands. Raises AddressError."""
    at = state.at or default_address(run)
    shown = bare(state).replace(at=at, row=state.row, col=state.col, order=state.order, offset=state.offset)
    return Shared(
        title=at if steps.must_wait(run, at) else heading(run, at),
        description=about(run),
        path=link(EXPLORE, shown.pairs()),  # in full, wherever the page that says it holds the text
        frame=shown.replace(page=AppPath(f"{EMBED}{what}")).url(),
        card=card_url(bare(state).replace(at=at)),
        height=HEIGHTS[what],
        hides=HIDES[what],
        state=shown,
    )


def bare(state: State) -> State:
    """The run alone, on the site's own pages."""
    return state.select("").replace(order="size", page=EXPLORE, page_settings=(), look=())


def about(run: Run) -> str:
    """What a page says of the run."""
    text = " ".join(run.text.split())
    text = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return f"“{text}”, read by {run.model.name}. Every number opens into what made it."


def card_url(state: State, of: str = "") -> Url:
    """The picture of a number, or of a page by its name."""
    return link(CARD, [*([("of", of)] if of else []), *state.pairs()])


# -- from an address


@dataclass(frozen=True)
class SharedPage:
    """An address of this site, read: the page's path, its parameters, the section named. `what` is to be framed."""

    path: AppPath
    query: QueryParams
    section: str
    what: What

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Asked:
    """What an address leads to: the run it needs, and what to make of it."""

    state: State
    make: Callable[[Run], Shared]


Maker = Callable[[Services, SharedPage], Asked]

MAKERS: dict[str, Maker] = {}
CARDS: dict[str, tuple[str, str]] = {}  # pages that have a picture of their own: their titles, and a line about each


def shares(path: str) -> Callable[[Maker], Maker]:
    """Registers what makes a `Shared` of the page at a path; one that ends in * stands for all just below it.

    A maker raises NotShared where there is no such page.
    """

    def register(maker: Maker) -> Maker:
        MAKERS[path] = maker
        return maker

    return register


@shares(EXPLORE)
@shares(f"{EMBED}why")
@shares(f"{EMBED}values")
def number_asked(services: Services, page: SharedPage) -> Asked:
    """A number of the run that an address names, alone or in its table."""
    state, what = page_state(services, page.query), what_of(page.name) or page.what
    return Asked(state, lambda run: of_number(run, state, what))


def asked_for(services: Services, address: str, origin: str, what: What = "why") -> Asked:
    """The page behind an address: a whole one of this site (`origin`), or its path.

    Nothing is fetched; the address is only read. Raises NotShared, and a ReaderError for what it may not ask.
    """
    try:
        parts, own = urlsplit(address), urlsplit(origin)
    except ValueError:  # as of a host that begins with a bracket
        raise NotShared from None
    if (parts.scheme or parts.netloc) and (
        parts.scheme not in ("http", "https") or parts.netloc.lower() != own.netloc.lower()
    ):
        raise NotShared
    root = ROOT.get()
    if not parts.path.startswith(f"{root}/"):
        raise NotShared
    path = AppPath(unquote(parts.path.removeprefix(root)))
    maker = MAKERS.get(path) or MAKERS.get(f"{path.rpartition('/')[0]}/*")
    if maker is None:
        raise NotShared
    try:
        return maker(services, SharedPage(path, QueryParams(parts.query), unquote(parts.fragment), what))
    except RequestValidationError:
        raise NotShared from None
