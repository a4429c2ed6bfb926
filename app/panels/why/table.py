"""A table of terms, as `templates/why/_terms.html` draws it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.render.templating import Context

NO_BAR = Markup('<span class="mini"></span>')  # keeps a column of bars in step where a phone leaves it out


def row(cells: Sequence[str], css: str = "", span: int = 1) -> Context:
    """Cells in the order of the headings, the first over `span` columns; `css` marks the number itself and sums."""
    return {"cells": cells, "css": css, "span": span}
