"""A table of terms as a reader sees it, as `templates/why/_terms.html` draws it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

NO_BAR = Markup('<span class="mini"></span>')  # keeps a column of bars in step where a phone leaves it out


@dataclass(frozen=True)
class Row:
    """Cells in the order of the headings, the first over `span` columns.

    `css` marks the row of the number itself, of the rest and of the total.
    """

    cells: tuple[str, ...]
    css: str = ""
    span: int = 1


@dataclass(frozen=True)
class Table:
    """A window of terms. A heading is None over bars.

    `note` is a name that all of them share; `named` tables need room for names; `narrow` ones leave their bars out on a
    phone.
    """

    heads: tuple[str | None, ...]
    rows: tuple[Row, ...]
    caption: str
    note: str = ""
    named: bool = False
    narrow: bool = False
