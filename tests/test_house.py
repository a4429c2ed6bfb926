"""The house as it is built: no import runs in a circle, and files and functions stay short.

Every import counts: at the top of a file, inside a function, under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("model", "app")
SHORT = ("model", "app")  # packages whose files and functions are short
MOST_LINES = {"file": 350, "function": 50, "median function": 8}


@cache
def modules(package: str) -> dict[str, ast.Module]:
    """Every module of a package by its dotted name, parsed."""
    paths = sorted((ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text()) for path in paths}


def imported(tree: ast.Module, known: dict[str, ast.Module]) -> set[str]:
    """The modules of the same package that a module imports anywhere."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return {found for name in names for found in (name, f"{name}.__init__") if found in known}


def rings(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules from each of which one comes back to it (Warshall: through one module after another)."""
    reached = {name: set(below) for name, below in graph.items()}
    for middle in graph:
        for below in reached.values():
            if middle in below:
                below |= reached[middle]
    return [{other for other in reached[name] if name in reached[other]} for name in graph if name in reached[name]]


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each function's name and its lines, from `def` to its last statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_runs_in_a_circle(package: str) -> None:
    known = modules(package)
    found = rings({name: imported(tree, known) for name, tree in known.items()})
    assert not found, max(found, key=len)


def test_a_ring_would_be_seen() -> None:
    assert rings({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}] * 3
    late = ast.parse("def f():\n    from model.errors import ReaderError")
    assert imported(late, modules("model")) == {"model.errors"}


@pytest.mark.parametrize("package", SHORT)
def test_files_and_functions_are_short(package: str) -> None:
    lengths = {}
    for name, tree in modules(package).items():
        path = ROOT / name.replace(".", "/")
        assert len(path.with_suffix(".py").read_text().splitlines()) <= MOST_LINES["file"], name
        lengths |= {f"{name}.{function}:{n}": lines for n, (function, lines) in enumerate(functions(tree))}
    longest = max(lengths, key=lambda name: lengths[name])
    assert lengths[longest] <= MOST_LINES["function"], longest
    assert median(lengths.values()) <= MOST_LINES["median function"]
