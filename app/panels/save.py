"""What can be saved of a number, or of many: one menu, a form whose buttons name the file.

The form carries the run once; a link for each file would repeat a long text many times.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from app.render import numbers
from app.render.templating import Context
from app.request.state import State
from app.server.prefix import AppPath, rooted
from model.address.parser import Address

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation

MOST_AS_TEXT = 1_000_000  # numbers; more are offered as NPY alone
FORMATS = ("csv", "json", "npy")

File = tuple[str, str, int]  # its name in the menu, where it is, and how deep it goes where that is asked


def of_number(state: State, e: Explanation) -> Context:
    """Of one number: its explanation as a page, a notebook, and its terms."""
    page = _path(state, "why.html")
    rows = {
        "To read without this site": [("a page", page, 0), ("with its inputs’ inputs", page, 2)],
        "To compute it again": [("a notebook", _path(state, "notebook.ipynb"), 0)],
    }
    if e.combine != "given" and e.n_terms > 0:
        rows[_terms(e)] = _files(state, "terms")
    return _menu(state, state.at, rows)


def of_table(run: Run, state: State, address: Address, shown: str) -> list[Context]:
    """Of a table: the numbers in view, and all of the site."""
    whole = str(Address(address.site, (), address.quantity))
    size = prod(run.shape(address.site))
    menus = [_menu(state, shown, {"Numbers shown": _files(state, "values")})]
    if size > 1:
        files = _files(state, "values", FORMATS if size <= MOST_AS_TEXT else ("npy",))
        menus.append(_menu(state, whole, {f"All {numbers.count(size)} of {whole}": files}))
    return menus


def _terms(e: Explanation) -> str:
    if e.combine == "quotient" and e.n_terms > 2:
        return f"All {numbers.count(e.n_terms - 1)} terms and the one on top"
    return f"All {numbers.count(e.n_terms)} terms" if e.n_terms > 1 else "Its term"


def _files(state: State, what: str, formats: tuple[str, ...] = FORMATS) -> list[File]:
    return [(ending.upper(), _path(state, f"{what}.{ending}"), 0) for ending in formats]


def _path(state: State, name: str) -> str:
    """Below the page's own path where that holds the text: see `app.request.long_text`."""
    return f"export/{name}" if state.is_packed else rooted(AppPath(f"/export/{name}"))


def _menu(state: State, at: str, rows: dict[str, list[File]]) -> Context:
    """`hidden` are the form's fields: the run and the address. In a frame, files need a window of their own."""
    run = [pair for pair in state.run_query if not (state.is_packed and pair[0] == "text")]
    first = next(iter(rows.values()))[0][1]
    return {"hidden": [*run, ("at", at)], "action": first, "rows": rows, "is_framed": state.is_framed}
