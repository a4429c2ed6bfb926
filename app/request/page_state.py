"""A page's parameters, each declared once: its type, its bounds, words for its error; read and written by that.

class SliceState(PageState):
    row: Annotated[int, Hint("A row counts from {ge}, as in row=16.")] = Field(0, ge=0)

state = SliceState.from_query(request.query_params)   # raises RequestValidationError, ReaderError
state.replace(row=3).url(AppPath("/slice"))           # "/slice?row=3": what is at its default is left out
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_args, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from app.request.paths import encoded, link
from app.server.prefix import AppPath, Url
from model.errors import ReaderError

BOUNDS = ("gt", "ge", "lt", "le", "max_length")
HINTS: dict[str, str] = {}  # how to write a parameter, by its name: for those that FastAPI reads


@dataclass(frozen=True)
class Hint:
    """How to write a parameter, told where it cannot be read. `{ge}`, `{le}` … stand for the field's own bounds."""

    text: str

    def of(self, field: FieldInfo) -> str:
        bounds = {name: getattr(rule, name) for rule in field.metadata for name in BOUNDS if hasattr(rule, name)}
        return self.text.format(**bounds)


@dataclass(frozen=True)
class Separated:
    """A tuple that is one parameter, its items with this sign between them."""

    sign: str


class Parameter(NamedTuple):
    """A field as the query knows it. `kinds` are the types that it may have."""

    name: str
    key: str
    default: Any
    kinds: tuple[Any, ...]
    sign: str | None


class BadParameters(RequestValidationError):
    """Parameters that cannot be read; `hints` say how the page has them written, by their names."""

    def __init__(self, errors: Any, hints: Mapping[str, str]) -> None:
        super().__init__(errors)
        self.hints = hints


class PageState(BaseModel):
    """The parameters of one page. Fields with `exclude=True` are of the page, but not of its URL."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    explicit: ClassVar[frozenset[str]] = frozenset()  # parameters that may be empty, and are always written
    digits: ClassVar[int | None] = None  # significant ones of a written fraction; None: all that it needs

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:
        for name, hint in cls.hints().items():
            HINTS.setdefault(name, hint)

    @classmethod
    def hints(cls) -> dict[str, str]:
        """How to write the parameters that say it."""
        fields = ((field.alias or name, field) for name, field in cls.model_fields.items())
        return {key: rule.of(field) for key, field in fields for rule in field.metadata if isinstance(rule, Hint)}

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """What the query may hold, in the order in which it is written."""
        return tuple(
            Parameter(name, field.alias or name, field.default, kinds(field.annotation), sign_of(field))
            for name, field in cls.model_fields.items()
            if not field.exclude
        )

    @classmethod
    def from_query(cls, query: Mapping[str, Any], **given: Any) -> Self:
        """Read and checked; `given` is for what the query leaves out. An empty field asks for the default.

        Raises RequestValidationError, which names the parameter, or the ReaderError of a check.
        """
        found = dict(given)
        for each in cls.parameters():
            value = (
                query.getlist(each.key) if tuple in each.kinds and hasattr(query, "getlist") else query.get(each.key)
            )
            if value or (value is not None and each.key in cls.explicit):
                found[each.key] = value
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            raise reader_error(error.errors()) or BadParameters(error.errors(), cls.hints()) from None

    @classmethod
    def readable(cls, query: Mapping[str, Any], *names: str) -> Self:
        """What of these parameters can be read; the others are at their defaults."""
        found = cls()
        for name in names:
            with suppress(RequestValidationError, ReaderError):
                found = found.replace(**{name: getattr(cls.from_query({name: query.get(name, "")}), name)})
        return found

    @field_validator("*", mode="before")
    @classmethod
    def as_written(cls, given: object, info: ValidationInfo) -> object:
        """A field in the spellings that forms and readers have for it."""
        field = cls.model_fields[str(info.field_name)]
        types = kinds(field.annotation)
        if tuple in types:
            return items(given, sign_of(field))
        if not isinstance(given, str):
            return given
        if str in types:
            return given.replace("\r\n", "\n")  # a form sends every line end as two characters; the text has one
        if {int, float, bool} & set(types):
            plain = given.strip().replace("−", "-").replace(",", ".")
            return plain if plain else field.default
        return given

    @classmethod
    def of(cls, other: PageState, *names: str, **changes: Any) -> Self:
        """With the fields that another has too (of those named, where any are), and some changed."""
        shared = cls.model_fields.keys() & (names or type(other).model_fields.keys())
        return cls().replace(**{name: getattr(other, name) for name in shared} | changes)

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed, which are not checked again."""
        assert changes.keys() <= type(self).model_fields.keys(), changes
        return self.model_copy(update=changes)

    def pairs(self, *without: str, **changes: Any) -> list[tuple[str, str]]:
        """The parameters; those at their defaults are left out, but for `explicit` ones and `changes`."""
        found: list[tuple[str, str]] = []
        for name, key, default, _, sign in self.parameters():
            value = changes.get(name, getattr(self, name))
            if key not in without and (value != default or name in changes or key in self.explicit):
                texts = [written(each, self.digits) for each in (value if isinstance(value, tuple) else (value,))]
                found += [(key, text) for text in ([sign.join(texts)] if sign else texts)]
        return found

    def query(self, *without: str) -> str:
        """The parameters as the query of a URL."""
        return encoded(self.pairs(*without))

    def url(self, path: AppPath) -> Url:
        """A page in this state. Not escaped: templates do that."""
        return link(path, self.pairs())


def written(value: Any, digits: int | None = None) -> str:
    """A value in a URL or a field: a fraction with all digits that it needs, no more where six do."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, float):
        return str(value)
    short = f"{value:.{digits or 6}g}"
    return short if digits or float(short) == value else f"{value:.17g}"


def kinds(annotation: Any) -> tuple[Any, ...]:
    """The types that a field may have: of `float | None` both, of `tuple[str, ...]` tuple."""
    found = get_args(annotation) if get_origin(annotation) not in (None, tuple) else (annotation,)
    plain = (get_args(each)[0] if get_origin(each) is Annotated else each for each in found)
    return tuple(get_origin(each) or each for each in plain)


def sign_of(field: FieldInfo) -> str | None:
    return next((rule.sign for rule in field.metadata if isinstance(rule, Separated)), None)


def items(given: object, sign: str | None) -> object:
    """The items of a parameter that may be repeated; empty ones are left out."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, str) for each in given):
        return given
    parts = [part for each in given for part in (each.split(sign) if sign else (each,))]
    return tuple(part.strip() for part in parts if part.strip())


def reader_error(errors: Any) -> ReaderError | None:
    """The error of a check that names the part itself, where that is the first one."""
    found = errors[0].get("ctx", {}).get("error") if errors else None
    return found if isinstance(found, ReaderError) else None
