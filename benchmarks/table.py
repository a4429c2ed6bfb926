"""What a benchmark shows: tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Row = Sequence[str]


@dataclass(frozen=True)
class Table:
    """`note` says under the table how it was measured or what is missing."""

    title: str
    headings: Row
    rows: Sequence[Row]
    note: str = ""

    def markdown(self) -> str:
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"## {self.title}\n\n{table}\n" + (f"\n{self.note}\n" if self.note else "")


def verdict(value: float, limit: float) -> str:
    """Whether a figure is within its limit."""
    return "holds" if value <= limit else "misses"
