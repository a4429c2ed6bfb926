"""What a page of generation shows, as its URL says it: text, settings, the tokens a reader took, the step looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from app.request.state import DEFAULT_TEXT, LONG_QUERY, SAFE, State
from app.server.prefix import rooted
from app.stores.catalogue import Catalogue, Entry
from app.stores.generations import MOST_TOKENS, GenerationKey
from model.errors import SettingError
from model.runtime.sample import Settings, check_whole

OPENING = "Once upon a time, there was a little"  # a text that wants to go on, where none is given
LONGEST_STOP = 40
BOS = "Write bos=0 to leave the start token out, bos=1 to keep it."

Picks = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Ask:
    """`n` tokens after the text of `state`. `picks` are (step, token id) that the reader took instead of the draw's.

    `step` is the one looked at (None: the first), `first` the first rank listed of it. `compare` computes every
    step a second time without the cache. Raises SettingError where a value is out of its range.
    """

    state: State
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    seed: int = 1
    n: int = 20
    stop: str = ""
    picks: Picks = ()
    step: int | None = None
    first: int = 0
    compare: bool = True

    def __post_init__(self) -> None:
        self.sampling  # noqa: B018  raises what is wrong with it
        if not 1 <= self.n <= MOST_TOKENS:
            raise SettingError("n", f"n is {self.n}, but must be a whole number from 1 to {MOST_TOKENS}.",
                               "More are made by going on from the text.")  # fmt: skip
        if len(self.stop) > LONGEST_STOP:
            raise SettingError("stop", f"The stop text is longer than {LONGEST_STOP} characters.", "A full stop does.")
        for step, _ in self.picks:
            check_whole("pick", step, MOST_TOKENS - 1, "Write STEP:ID, as in pick=3:17; steps count from 0.")

    @property
    def sampling(self) -> Settings:
        return Settings(self.temperature, self.top_k or None, self.top_p, self.seed)

    def key(self, models: Catalogue) -> GenerationKey:
        """The generation that this is a view of. Raises UnknownModel, SettingError."""
        entry = models.entry(self.state.model)
        for _, token in self.picks:
            check_whole("pick", token, entry.config.d_vocab - 1, "Write STEP:ID; the id is a token of the vocabulary.")
        stop = self.stop.replace("\\n", "\n")
        return GenerationKey(entry.name, self.state.text, self.state.bos, self.sampling, stop, self.picks, self.compare)

    # -- where a click leads

    def look(self, step: int) -> Ask:
        """The choice at another step."""
        return replace(self, step=step, first=0)

    def list_from(self, rank: int) -> Ask:
        """The same choice, other ranks in view."""
        return replace(self, first=max(rank, 0))

    def take(self, step: int, token: int | None) -> Ask:
        """Another token at this step (None: the draw's own again): a branch, so later ones are forgotten."""
        before = tuple(pick for pick in self.picks if pick[0] < step)
        own = () if token is None else ((step, token),)
        return replace(self, picks=before + own, step=step, first=0)

    def make(self, n: int) -> Ask:
        """More tokens, or fewer, of the same text."""
        return replace(self, n=min(max(n, 1), MOST_TOKENS))

    def unbranched(self) -> Ask:
        """Without any token taken by the reader."""
        return replace(self, picks=(), first=0)

    def after(self, text: str, bos: bool) -> Ask:
        """The same settings after another text."""
        state = State(self.state.model, text, "", bos)
        return replace(self, state=state, picks=(), step=None, first=0)

    # -- as a URL

    def query(self, *without: str) -> list[tuple[str, str]]:
        """The parameters; those at their defaults are left out, and those named in `without`."""
        pairs = [(name, value) for name, value in self.state.run_query if name in ("model", "text", "bos")]
        plain = Ask(self.state)
        for name in ("temperature", "top_k", "top_p", "seed", "n", "stop", "step", "first"):
            if getattr(self, name) != getattr(plain, name):
                pairs.append((name, written(getattr(self, name))))
        pairs += [("pick", f"{step}:{token}") for step, token in self.picks]
        pairs += [] if self.compare else [("compare", "0")]
        return [(name, value) for name, value in pairs if name not in without]

    def url(self, path: str = "/generate") -> str:
        """Not escaped: templates do that."""
        return f"{rooted(path)}?{urlencode(self.query(), safe=SAFE, quote_via=quote)}"

    @property
    def is_long(self) -> bool:
        """Where a link in every token would swamp the page, they are buttons of one form."""
        return len(self.url()) > (LONG_QUERY if self.n <= 20 else LONG_QUERY // 4)


def written(x: object) -> str:
    """A setting as it stands in a URL or in a form's field."""
    if isinstance(x, float):
        return f"{x:g}" if float(f"{x:g}") == x else repr(x)
    return str(x)


# -- from a query


def asked(models: Catalogue, query: Mapping[str, str], picks: Iterable[str]) -> Ask:
    """What the parameters of a request ask for, empty fields meaning the default. Raises ReaderError."""
    plain = Ask(state_of(models, query))
    return Ask(
        plain.state,
        temperature=number(query, "temperature", plain.temperature),
        top_k=whole(query, "top_k", plain.top_k),
        top_p=number(query, "top_p", plain.top_p),
        seed=whole(query, "seed", plain.seed),
        n=whole(query, "n", plain.n),
        stop=query.get("stop", ""),
        picks=picks_of(picks),
        step=whole(query, "step", -1) if query.get("step") else None,
        first=whole(query, "first", 0),
        compare=flag(query, "compare", "Write compare=0 to compute each step once only, compare=1 to compare."),
    )


def state_of(models: Catalogue, query: Mapping[str, str]) -> State:
    """Raises UnknownModel, SettingError."""
    entry = models.entry(query.get("model", ""))
    text = query["text"].replace("\r\n", "\n") if "text" in query else opening(entry)
    return State(query.get("model", ""), text, "", flag(query, "bos", BOS))


def flag(query: Mapping[str, str], name: str, hint: str) -> bool:
    """0 or 1, in the spellings that the other pages take; 1 where it is left out. Raises SettingError."""
    given = query.get(name, "")
    if (word := given.strip().lower()) in ("", "1", "true", "t", "yes", "y", "on"):
        return True
    if word in ("0", "false", "f", "no", "n", "off"):
        return False
    raise SettingError(name, f"{name} is “{given[:40]}”, but must be 0 or 1.", hint)


def opening(entry: Entry) -> str:
    """The text to continue where none is given."""
    return OPENING if entry.text == DEFAULT_TEXT else entry.text


def picks_of(picks: Iterable[str]) -> Picks:
    """`STEP:ID` each; of two at one step the later one counts."""
    found: dict[int, int] = {}
    for pick in filter(None, picks):
        step, _, token = pick.partition(":")
        if not (step.isascii() and step.isdigit() and token.isascii() and token.isdigit()) or len(pick) > 20:
            raise SettingError("pick", f"pick is “{pick[:40]}”, which says no step and token.",
                               "Write STEP:ID, as in pick=3:17; steps count from 0.")  # fmt: skip
        found[int(step)] = int(token)
    return tuple(sorted(found.items()))


def number(query: Mapping[str, str], name: str, default: float) -> float:
    """A number as a reader writes it: with a comma, if they like."""
    given = query.get(name, "").strip().replace("−", "-").replace(",", ".")
    try:
        return float(given) if given else default
    except ValueError:
        hint = f"Write a number such as {written(default)}."
        raise SettingError(name, f"{name} is “{given[:40]}”, which is no number.", hint) from None


def whole(query: Mapping[str, str], name: str, default: int) -> int:
    given = query.get(name, "").strip().replace("−", "-")
    try:
        found = int(given) if given and len(given) <= 20 and given.isascii() else None if given else default
    except ValueError:
        found = None
    if found is None or (found < 0 and name in ("step", "first")):
        hint = f"Write a number such as {max(default, 0)}."
        raise SettingError(name, f"{name} is “{given[:40]}”, but must be a whole number from 0 on.", hint)
    return found
