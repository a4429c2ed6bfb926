"""The state of the explorer's pages: the run, what is looked at in it, and where its numbers open."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator

from app.request.page_state import Hint, PageState, Separated
from app.request.paths import EMBED, EXPLORE, PACKABLE, PACKED_TEXT, Pairs, encoded
from app.server.prefix import AppPath, Url, rooted
from model.address.parser import Calc, parse
from model.address.patch import MOST_CHANGES
from model.runtime.learn import MOST_STEPS

DEFAULT_TEXT = "When Mary and John went to the store, John gave a drink to"
MAX_TRAIL = 8
DEFAULT_STEPS = 10
LARGEST = 2**31 - 1

# Past this many characters of text a link in every cell would swamp the page: cells become buttons of one form.
LONG_QUERY = 400

BOS = "Write bos=0 to leave the start token out, bos=1 to keep it."

Change = Annotated[str, StringConstraints(max_length=200)]
Steps = Annotated[int, Hint("Write a whole number from {ge} to {le}, as in steps=10.")]
Index = Annotated[int | None, Field(ge=0, le=LARGEST)]


class RunQuery(PageState):
    """The parameters that name a run."""

    explicit: ClassVar[frozenset[str]] = frozenset({"text"})

    model: str = Field("", description="A name from /api/v1/models; left out: the server's default.")
    text: str | None = Field(
        None, description="The text to run; left out: the model's own example.", examples=[DEFAULT_TEXT]
    )
    target: Annotated[str, Hint("A target is one token, as in target= Mary.")] = Field(
        "",
        max_length=200,
        description="The token whose loss is computed: its text (one token), `id:17`, or `sequence` for the mean "
        "over the text's own next tokens; left out: the model's first guess.",
        examples=[" Mary"],
    )
    bos: Annotated[bool, Hint(BOS)] = Field(True, description="Whether the start token is put in front.")

    eta: Annotated[
        float | None, Hint("A learning rate is a number from {ge} up, as in eta=0.01; left out, it is measured.")
    ] = Field(
        None, ge=0, le=1e6, allow_inf_nan=False, description="The learning rate η of `.step`; left out: one measured "
        "to lower this run’s loss.", examples=[0.01],
    )  # fmt: skip
    optimizer: Literal["sgd", "adamw"] = Field("sgd", description="How a step follows the slope.")
    steps: Steps = Field(DEFAULT_STEPS, ge=1, le=MOST_STEPS, description="How many learning steps a job takes.")
    changes: Annotated[
        tuple[Change, ...],
        Hint("Write a place and a number, as in set=blocks.1.attn.z[:,2,:]=0; up to {max_length} of them."),
    ] = Field(
        (), alias="set", max_length=MOST_CHANGES, description="Numbers set by you, each `site[index]=value`; may be "
        "repeated. The run goes on from them.", examples=[["blocks.1.attn.z[:,2,:]=0"]],
    )  # fmt: skip


class After(PageState):
    """A form's wish to see the same place after so many learning steps."""

    after: Annotated[int | None, Hint("Write a whole number of steps from {ge} to {le}, as in after=3.")] = Field(
        None, ge=1, le=MOST_STEPS
    )


class State(RunQuery):
    """What a page shows: model, text, target and start token; the selected address and how it is looked at.

    `model` "" is the server's default. `at` "" is the page's own choice. `row` and `col` are the first row and column
    of the window of values (None: the window around `at`). `order` and `offset` page through the terms. `trail` are
    the addresses followed to get here, oldest first.

    `eta` and `optimizer` say how learning steps are taken (None: an η measured on the run), `steps` how many a page
    of learning shows. `changes` are numbers set by the reader, each `site[index]=value`: with them it is another run.

    `nudge` asks beside a slope for finite differences: how far to move the number, besides the usual distances.

    `page` is where its numbers open. `page_settings` are that page's own parameters, such as a live part's, and `look`
    how an embed looks; links that stay on the page carry both.
    """

    text: str = DEFAULT_TEXT
    at: str = ""
    row: Annotated[int | None, Hint("A row counts from {ge}, as in row=16.")] = Field(None, ge=0, le=LARGEST)
    col: Annotated[int | None, Hint("A column counts from {ge}, as in col=16.")] = Field(None, ge=0, le=LARGEST)
    order: Literal["size", "index"] = "size"
    offset: Annotated[int, Hint("An offset counts from {ge}, as in offset=20.")] = Field(0, ge=0, le=LARGEST)
    nudge: Annotated[
        float | None, Hint("Write how far to move the number, above {gt} and up to {le}, as in nudge=0.1.")
    ] = Field(None, gt=0, le=1000, allow_inf_nan=False)
    trail: Annotated[tuple[str, ...], Separated("~")] = ()

    page: AppPath = Field(EXPLORE, exclude=True)
    page_settings: Pairs = Field((), exclude=True)
    look: Pairs = Field((), exclude=True)

    @field_validator("at")
    @classmethod
    def bare(cls, at: str) -> str:
        return at.strip()

    @field_validator("trail")
    @classmethod
    def latest(cls, trail: tuple[str, ...]) -> tuple[str, ...]:
        return trail[-MAX_TRAIL:]

    # -- where a click leads

    def select(self, at: str) -> State:
        """Another number, freshly chosen: a new trail begins."""
        return self.replace(at=at, trail=(), offset=0, row=None, col=None, nudge=None)

    def follow(self, at: str) -> State:
        """Onward from the selected number: it joins the trail. Going back to one on the trail shortens it."""
        if at in self.trail:
            return self.back(self.trail.index(at))
        trail = (*self.trail, self.at)[-MAX_TRAIL:] if self.at else self.trail
        return self.select(at).replace(trail=trail)

    def back(self, n: int) -> State:
        """To the n-th address of the trail."""
        return self.select(self.trail[n]).replace(trail=self.trail[:n])

    def turn(self, at: str) -> State:
        """Another quantity at the same place: the trail stays."""
        return self.replace(at=at, offset=0, nudge=None)

    def after(self, steps: int | None) -> State:
        """The same place after so many learning steps (None: as it is). Raises AddressError."""
        if steps is None or not self.at or isinstance(place := parse(self.at), Calc):
            return self
        return self.replace(at=str(replace(place, quantity="step" if steps == 1 else f"step({steps})")))

    def window(self, row: int, col: int) -> State:
        """The same selection, other values in view."""
        return self.replace(row=max(row, 0), col=max(col, 0))

    def terms(self, *, order: Literal["size", "index"] | None = None, offset: int = 0) -> State:
        """The same selection, other terms in view."""
        return self.replace(order=order or self.order, offset=max(offset, 0))

    def aim(self, target: str) -> State:
        """The same text with another target, looked at afresh."""
        return self.select("").replace(target=target)

    def change(self, *changes: str) -> State:
        """The run with just these numbers set (none: as it was). The place looked at stays."""
        return self.replace(changes=changes)

    # -- as a URL

    @property
    def run_query(self) -> list[tuple[str, str]]:
        """The parameters that name the run; those at their defaults are left out."""
        return self.pairs(*VIEW)

    @property
    def view_query(self) -> list[tuple[str, str]]:
        """The parameters that say what is looked at, but for the address."""
        return [pair for pair in self.pairs("at") if pair[0] in VIEW]

    @property
    def page_query(self) -> list[tuple[str, str]]:
        """The run, and what the page where its numbers open needs besides: what a form to `action` keeps."""
        return [*self.pairs(*VIEW, *self._packed), *self.page_settings, *self.look]

    @property
    def is_packed(self) -> bool:
        """Whether the path of the page that is made holds this text, so that a link to the same page need not."""
        return self.page == EXPLORE and PACKED_TEXT.get() == self.text

    @property
    def _packed(self) -> tuple[str, ...]:
        """The parameters that the path holds."""
        return ("text",) if self.is_packed else ()

    @property
    def action(self) -> str:
        """What a link or form to the page where its numbers open begins with."""
        return self.page.rpartition("/")[2] if self.is_packed else rooted(self.page)

    @property
    def is_framed(self) -> bool:
        """Whether numbers open in an embed: links that lead out of it then need a window of their own."""
        return self.page.startswith(EMBED)

    def url(self, path: AppPath | None = None) -> Url:
        """A link to a page in this state (none named: where its numbers open), not yet escaped for HTML.

        Beside a packed text it is relative, as `action` is.
        """
        if path is None or path == self.page:
            return Url(f"{self.action}?{encoded([*self.page_settings, *self.look, *self.pairs(*self._packed)])}")
        if self.is_packed and path in PACKABLE:
            return Url(f"{path[1:]}?{self.query('text')}")
        return super().url(path)

    def api(self, what: Literal["run", "values", "explain"], **extra: str) -> Url:
        """The same as JSON, with the address where it takes one."""
        at = [("at", self.at)] if self.at and what != "run" else []
        path = f"api/v1/{what}" if self.is_packed else rooted(AppPath(f"/api/v1/{what}"))
        return Url(f"{path}?{encoded([*self.pairs(*VIEW, *self._packed), *at, *extra.items()])}")


VIEW = tuple(name for name in State.model_fields if name not in RunQuery.model_fields)
