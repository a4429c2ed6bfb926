"""A sample of the mutants, and the machine that makes them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.draw import SAMPLE, drawn, sample
from tests.mutants.harmless import HARMLESS
from tests.mutants.sources import mutants_of
from tests.mutants.targets import ROOT, TARGETS


def test_a_sample_of_mutants_is_caught() -> None:
    """Twenty small faults, one at a time, each noticed by a test; `make mutants` tries hundreds."""
    command = [sys.executable, "-m", "tests.mutants", "--draw", "sample"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{SAMPLE} mutants, {SAMPLE} caught, 0 survived" in ran.stdout, ran.stdout


def test_mutants_are_many_of_every_kind_and_always_the_same() -> None:
    mutants = drawn()
    assert len(mutants) >= 300
    assert len({mutant.kind.removeprefix("named, ") for mutant in mutants}) >= 14
    assert {mutant.path for mutant in mutants} == {target.path for target in TARGETS}
    assert [mutant.key for mutant in sample()] == [mutant.key for mutant in sample()]


def test_each_mutant_is_other_code_that_compiles() -> None:
    plain = {target.path: ast.dump(ast.parse(target.path.read_text("utf-8"))) for target in TARGETS}
    for mutant in drawn()[::5]:
        assert ast.dump(mutant.tree) != plain[mutant.path], mutant.key
        compile(mutant.tree, str(mutant.path), "exec")


def test_harmless_mutants_are_mutants_that_would_be_drawn() -> None:
    """An entry whose code is gone says nothing any more."""
    known = {mutant.key for target in TARGETS for mutant in mutants_of(target.path)}
    assert set(HARMLESS) <= known, f"no longer there: {set(HARMLESS) - known}"
    docs = (ROOT / "docs" / "testing.md").read_text("utf-8")
    for reason in set(HARMLESS.values()):
        assert reason in docs, f"docs/testing.md does not say: {reason}"


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("def f(x):\n    return -x", "sign", "return x"),
        ("def f(x):\n    return x + 1", "sign", "return x - 1"),
        ("def f(x):\n    return x[1]", "off by one", "return x[2]"),
        ("def f(x):\n    return [y for y in x]", "only the first", "return [y for y in list(x)[:1]]"),
        ("def slope():\n    return r'\\frac{1}{d}'", "LaTeX", r"return '\\frac{2}{d}'"),
        ("def plain(t):\n    return f'after {t}'", "words", "return f'before {t}'"),
        ("def f(t, m):\n    return Ref('x', (t, m))", "index swap", "return Ref('x', (m, t))"),
        ("def f(a, b):\n    return Group((a, b))", "dropped factor", "return Group((b,))"),
        ("def f(a, b):\n    return a if b else 0", "other branch", "return 0 if b else a"),
    ],
)
def test_operators(tmp_path: Path, source: str, kind: str, expected: str) -> None:
    path = tmp_path / "some.py"
    path.write_text(source, "utf-8")
    made = [ast.unparse(mutant.tree) for mutant in mutants_of(path) if mutant.kind == kind]
    assert any(expected in text for text in made), made
