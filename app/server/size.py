"""When a model counts as large: learning steps wait for the reader's word, and more threads pay."""

from __future__ import annotations

LARGE = 20_000_000  # weights


def is_large(n_parameters: int) -> bool:
    """Whether a model of so many weights is slow enough that a page says what work costs before it does it."""
    return n_parameters > LARGE
