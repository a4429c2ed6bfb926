"""Mutants made from source text: all that the operators offer for one file, each known by what it changes."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.operators import OPERATORS, Spot, called


@dataclass(frozen=True)
class Mutant:
    """One change to one file. `key` says what it is, whatever line and file it stands in."""

    path: Path
    qualified: str
    kind: str
    old: str
    new: str
    n: int  # which of several that read the same
    whole: ast.Module = field(repr=False, compare=False)
    node: ast.AST = field(repr=False, compare=False)
    instead: ast.AST = field(repr=False, compare=False)

    @property
    def key(self) -> str:
        again = f" #{self.n}" if self.n else ""
        return f"{self.qualified or self.path.stem}: {self.kind}: {self.old} → {self.new}{again}"

    @property
    def tree(self) -> ast.Module:
        """The file's syntax tree with the change in it."""
        memo = {id(self.node): deepcopy(self.instead)}
        other = deepcopy(self.whole, memo)
        ast.copy_location(memo[id(self.node)], self.node)
        return ast.fix_missing_locations(other)

    @property
    def rank(self) -> str:
        """Where it stands in a draw that depends on nothing but what it is."""
        return hashlib.sha256(self.key.encode()).hexdigest()


def spots(node: ast.AST, chain: tuple[ast.AST, ...] = ()) -> Iterator[Spot]:
    """Every node that runs, from the top down: docstrings, annotations, imports and error messages stay as they are."""
    if chain:
        yield Spot(node, chain)
    for name, held in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in held if isinstance(held, list) else [held]:
            skipped = (ast.Import, ast.ImportFrom, ast.Raise, ast.expr_context, ast.operator, ast.cmpop, ast.unaryop)
            drawn = called(child) == "Curve"  # how a function is drawn: pages say so, and their tests
            if isinstance(child, ast.AST) and not isinstance(child, skipped) and not is_docstring(child) and not drawn:
                yield from spots(child, (*chain, node))


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def mutants_of(path: Path, functions: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """All mutants of a file, or of the functions and classes whose qualified names begin like these, not those."""
    tree = ast.parse(path.read_text("utf-8"))
    seen: dict[str, int] = {}
    for spot in spots(tree):
        if not spot.qualified.startswith(functions or "") or spot.qualified.startswith(without or "\0"):
            continue
        for kind, offers in OPERATORS.items():
            for new in offers(spot):
                yield made(path, tree, spot, kind, new, seen)


def made(path: Path, tree: ast.Module, spot: Spot, kind: str, new: ast.AST, seen: dict[str, int]) -> Mutant:
    where = (path, spot.qualified, kind, shown(spot, spot.node), shown(spot, new))
    change = (tree, spot.node, new)
    key = Mutant(*where, 0, *change).key
    seen[key] = seen.get(key, -1) + 1
    return Mutant(*where, seen[key], *change)


def shown(spot: Spot, node: ast.AST) -> str:
    """A node in one line. What is too small to be known by itself is shown with what holds it."""
    if isinstance(node, ast.comprehension):
        node = ast.GeneratorExp(elt=ast.Constant(...), generators=[node])
    if isinstance(node, (ast.For, ast.If)):
        head = ast.unparse(node.iter if isinstance(node, ast.For) else node.test)
        return f"{'for' if isinstance(node, ast.For) else 'if'} {head}"
    if isinstance(node, ast.FormattedValue):
        node = node.value
    text = " ".join(ast.unparse(node).split())
    if len(text) > 14 or not isinstance(spot.parent, ast.expr) or isinstance(spot.parent, ast.JoinedStr):
        return text
    around = deepcopy(spot.parent, {id(spot.node): deepcopy(node)})
    return " ".join(ast.unparse(ast.fix_missing_locations(around)).split())[:160]
