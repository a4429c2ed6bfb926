"""The state of the page of generation: text, settings, the tokens a reader took, the step looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator

from app.request.page_state import Hint, PageState
from app.request.paths import GENERATE
from app.request.state import BOS, DEFAULT_TEXT, LONG_QUERY, State
from app.server.prefix import AppPath, Url
from model.errors import SettingError
from model.runtime.sample import MAX_SEED, MAX_TEMPERATURE, Sampling, check_whole

OPENING = "Once upon a time, there was a little"  # a text that wants to go on, where none is given
LONGEST_STOP = 40
MOST_TOKENS = 60  # of one generation; a reader goes on from the text it made
PICK = "Write STEP:ID, as in pick=3:17; steps count from 0."

Picks = tuple[tuple[int, int], ...]


class GenerationQuery(PageState):
    """What makes a generation. What is malformed is told at once, what is out of range by `in_range`."""

    explicit: ClassVar[frozenset[str]] = frozenset({"text"})

    model: str = Field("", description="A name from /api/v1/models; left out: the server's default.")
    text: str | None = Field(None, description="The text to continue; `ids:464,3290` names its tokens.")
    bos: Annotated[bool, Hint(BOS)] = Field(True, description="Whether the start token is put in front.")
    temperature: Annotated[float, Hint("Write a number such as 0.8.")] = Field(
        0.8, json_schema_extra={"minimum": 0, "maximum": MAX_TEMPERATURE},
        description="Logits are divided by it; 0 always takes the likeliest token.",
    )  # fmt: skip
    top_k: Annotated[int, Hint("Write a number such as 40.")] = Field(
        40, json_schema_extra={"minimum": 0}, description="Keep so many tokens; 0: all."
    )
    top_p: Annotated[float, Hint("Write a number such as 0.95.")] = Field(
        0.95, json_schema_extra={"minimum": 0, "maximum": 1},
        description="Keep the likeliest tokens up to the one that brings their total to p; 1: all.",
    )  # fmt: skip
    seed: Annotated[int, Hint("Write a number such as 1.")] = Field(
        1,
        description="Of the random draw: the same seed gives the same text.",
        json_schema_extra={"minimum": 0, "maximum": MAX_SEED},
    )
    n: Annotated[int, Hint("Write a number such as 20.")] = Field(
        20, json_schema_extra={"minimum": 1, "maximum": MOST_TOKENS}, description="How many tokens."
    )
    stop: str = Field("", description="The text ends once what was made contains this.")
    pick: tuple[str, ...] = Field(
        (), examples=[["3:17"]], max_length=MOST_TOKENS, description="`STEP:ID` puts a token in place of the draw's."
    )
    compare: Annotated[bool, Hint("Write compare=0 to compute each step once only, compare=1 to compare.")] = Field(
        True, description="Whether every step is computed a second time without the cache."
    )

    @field_validator("pick")
    @classmethod
    def in_order(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        """Raises SettingError."""
        return spelled(picks_of(given))

    @property
    def picks(self) -> Picks:
        """(step, token id) of each token that the reader took instead of the draw's."""
        return picks_of(self.pick)

    @property
    def sampling(self) -> Sampling:
        """Raises SettingError where a setting is out of its range."""
        return Sampling(self.temperature, self.top_k or None, self.top_p, self.seed)

    def in_range(self) -> Self:
        """The same. Raises SettingError where a value is out of its range."""
        self.sampling  # noqa: B018  raises what is wrong with it
        if not 1 <= self.n <= MOST_TOKENS:
            raise SettingError("n", f"n is {self.n}, but must be a whole number from 1 to {MOST_TOKENS}.",
                               "More are made by going on from the text.")  # fmt: skip
        if len(self.stop) > LONGEST_STOP:
            raise SettingError("stop", f"The stop text is longer than {LONGEST_STOP} characters.", "A full stop does.")
        for step, _ in self.picks:
            check_whole("pick", step, MOST_TOKENS - 1, PICK)
        return self


class GenerationState(GenerationQuery):
    """`step` is the one looked at (None: the first), `first` the first rank listed of it."""

    text: str = DEFAULT_TEXT
    step: Annotated[int | None, Hint("Write a number such as 0.")] = Field(None, ge=0)
    first: Annotated[int, Hint("Write a number such as 0.")] = Field(0, ge=0)

    @property
    def run(self) -> State:
        """The run of the text that is continued."""
        return State(model=self.model, text=self.text, bos=self.bos)

    # -- where a click leads

    def look(self, step: int) -> GenerationState:
        """The choice at another step."""
        return self.replace(step=step, first=0)

    def take(self, step: int, token: int | None) -> GenerationState:
        """Another token at this step (None: the draw's own again): a branch, so later ones are forgotten."""
        before = tuple(pick for pick in self.picks if pick[0] < step)
        taken = () if token is None else ((step, token),)
        return self.replace(pick=spelled(before + taken), step=step, first=0)

    def make(self, n: int) -> GenerationState:
        """More tokens, or fewer, of the same text."""
        return self.replace(n=min(max(n, 1), MOST_TOKENS))

    def after(self, text: str, bos: bool) -> GenerationState:
        """The same settings after another text."""
        return self.replace(text=text, bos=bos, pick=(), step=None, first=0)

    # -- as a URL

    def pairs(self, *without: str, **changes: object) -> list[tuple[str, str]]:
        """What is looked at stands before the tokens taken."""
        return sorted(super().pairs(*without, **changes), key=lambda pair: pair[0] in ("pick", "compare"))

    def url(self, path: AppPath = GENERATE) -> Url:
        return super().url(path)

    @property
    def is_long(self) -> bool:
        """Where a link in every token would swamp the page, they are buttons of one form."""
        return len(self.url()) > (LONG_QUERY if self.n <= 20 else LONG_QUERY // 4)


def opening(example: str) -> str:
    """The text to continue where none is given; `example` is the model's own."""
    return OPENING if example == DEFAULT_TEXT else example


def spelled(picks: Picks) -> tuple[str, ...]:
    return tuple(f"{step}:{token}" for step, token in picks)


def picks_of(picks: Iterable[str]) -> Picks:
    """`STEP:ID` each; of two at one step the later one counts. Raises SettingError."""
    found: dict[int, int] = {}
    for pick in filter(None, picks):
        step, _, token = pick.partition(":")
        if not (step.isascii() and step.isdigit() and token.isascii() and token.isdigit()) or len(pick) > 20:
            raise SettingError("pick", f"pick is “{pick[:40]}”, which says no step and token.", PICK)
        found[int(step)] = int(token)
    return tuple(sorted(found.items()))
