"""Arithmetic that several live parts write, as text that `num.calc` reads."""

from __future__ import annotations


def written(x: float) -> str:
    """A number inside an expression."""
    return f"({x:g})" if x < 0 else f"{x:g}"


def length(row: str) -> str:
    """√Σx² of a range."""
    return f"sqrt(sum({row}*{row}))"


def softmax(scores: list[str]) -> list[str]:
    """The share of each of a few scores."""
    raised = [f"exp({z})" for z in scores]
    return [f"{e}/({'+'.join(raised)})" for e in raised]
