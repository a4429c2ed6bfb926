"""What holds for the tree as a whole: pins, imports, sizes, and that it names no place outside itself."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

LARGEST = 10 * 2**20

# Joined here so that this file does not hold them either.
PLACES = [
    *("/" + folder + "/" for folder in ("work", "farm")),
    *(".".join(host) for host in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))),
    *(".".join(host) for host in (("deb", "debian", "org"), ("download", "pytorch", "org"))),
]


def tracked() -> list[Path]:
    """Every file that git knows and that is still there."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def declared(*extras: str) -> dict[str, Requirement]:
    """The requirements of the project by their canonical names, with those of these extras."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, lines)}


def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines if not line.startswith("#")}


def version(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    return specifier.version


def test_every_declared_package_is_pinned_to_a_release_it_allows():
    for name, requirement in declared(*PROJECT["optional-dependencies"]).items():
        assert name in pins(), f"constraints.txt does not pin {name}"
        assert requirement.specifier.contains(version(pins()[name])), f"{pins()[name]} against {requirement}"


def test_every_pin_is_one_exact_public_release():
    for pin in pins().values():
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
        assert "+" not in version(pin), f"{pin} would bind the project to one build"
        assert pin.url is None and pin.marker is None


@pytest.mark.parametrize(("package", "extras"), [("app", ("scale",)), ("model", ("train",))])
def test_every_import_is_a_declared_package(package: str, extras: tuple[str, ...]):
    homes = packages_distributions()
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            else:
                continue
            for top in {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"app", "model"}:
                names = {canonicalize_name(home) for home in homes.get(top, [top])}
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                assert names & declared(*extras).keys(), f"{where} imports {top}, which pyproject.toml does not declare"


def test_model_knows_nothing_of_app():
    for path in sorted((ROOT / "model").rglob("*.py")):
        assert not re.search(r"^\s*(from|import) app\b", path.read_text(), re.MULTILINE), path


def test_no_tracked_file_is_large():
    for path in tracked():
        assert path.stat().st_size <= LARGEST, f"{path.relative_to(ROOT)} is {path.stat().st_size / 2**20:.1f} MiB"


def test_no_minified_or_third_party_script_is_tracked():
    for path in tracked():
        if path.suffix in {".js", ".mjs", ".css"}:
            name = path.relative_to(ROOT)
            assert ".min." not in path.name and not path.name.startswith("htmx"), f"{name}: serve it from its package"
            assert max(map(len, path.read_text().splitlines()), default=0) < 1000, f"{name} looks minified"


def test_the_tree_names_no_package_host_and_no_path_of_a_machine():
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for place in PLACES:
            assert place not in text, f"{path.relative_to(ROOT)} names {place}"


def test_commands_of_the_readme_are_targets_of_the_makefile():
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("there is no README.md yet")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = set(re.findall(r"(?:^|`|&& )\s*make ([a-z-]+)", readme.read_text(), re.MULTILINE))
    assert {"run", "test"} <= commands
    assert commands <= targets, f"README.md names make {', '.join(commands - targets)}"


def test_each_change_is_checked_by_make():
    check = ROOT / ".ci" / "run"
    assert os.access(check, os.X_OK)
    assert {"make lint", "make test"} <= set(check.read_text().splitlines())
