"""What can be saved of a number, or of many: one menu, a form whose buttons name the file.

The form carries the run once; a link for each file would repeat a long text many times.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from app.render import numbers
from app.request.state import State
from app.server.prefix import AppPath, rooted
from model.address.parser import Address

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation

MOST_AS_TEXT = 1_000_000  # numbers; more are offered as NPY alone
TEXTS = ("csv", "json")


@dataclass(frozen=True)
class File:
    """One file: its name in the menu and where it is, with a parameter if it takes one beside the run and `at`."""

    text: str
    path: str
    name: str = ""
    value: str = ""


@dataclass(frozen=True)
class Row:
    """Files of one thing."""

    title: str
    files: tuple[File, ...]


@dataclass(frozen=True)
class Downloads:
    """A menu. `hidden` are the form's fields: the run and the address. In a frame, files need a window of their own."""

    hidden: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    is_framed: bool


def of_number(state: State, e: Explanation) -> Downloads:
    """Of one number: its explanation as a page, a notebook, and its terms."""
    page = _path(state, "why.html")
    rows = [
        Row("To read without this site", (File("a page", page), File("with its inputs’ inputs", page, "depth", "2"))),
        Row("To compute it again", (File("a notebook", _path(state, "notebook.ipynb")),)),
    ]
    if e.combine != "given" and e.n_terms > 0:
        rows.append(Row(_terms(e), _formats(state, "terms")))
    return _menu(state, state.at, *rows)


def of_table(run: Run, state: State, address: Address, shown: str) -> tuple[Downloads, ...]:
    """Of a table: the numbers in view, and all of the site."""
    whole = str(Address(address.site, (), address.quantity))
    size = prod(run.shape(address.site))
    found = [_menu(state, shown, Row("Numbers shown", _formats(state, "values")))]
    if size > 1:
        formats = _formats(state, "values") if size <= MOST_AS_TEXT else _formats(state, "values")[len(TEXTS) :]
        found.append(_menu(state, whole, Row(f"All {numbers.count(size)} of {whole}", formats)))
    return tuple(found)


def _terms(e: Explanation) -> str:
    if e.combine == "quotient" and e.n_terms > 2:
        return f"All {numbers.count(e.n_terms - 1)} terms and the one on top"
    return f"All {numbers.count(e.n_terms)} terms" if e.n_terms > 1 else "Its term"


def _formats(state: State, what: str) -> tuple[File, ...]:
    return tuple(File(ending.upper(), _path(state, f"{what}.{ending}")) for ending in (*TEXTS, "npy"))


def _path(state: State, name: str) -> str:
    """Below the page's own path where that holds the text: see `app.request.long_text`."""
    return f"export/{name}" if state.is_packed else rooted(AppPath(f"/export/{name}"))


def _menu(state: State, at: str, *rows: Row) -> Downloads:
    run = [pair for pair in state.run_query if not (state.is_packed and pair[0] == "text")]
    return Downloads((*run, ("at", at)), rows, state.is_framed)
