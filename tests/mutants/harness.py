"""Runs tests on mutants: each in a process forked from one that has imported all libraries and none of our code."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tests.mutants.sources import Mutant
from tests.mutants.targets import QUICK, ROOT, module_of, target_of

LONGEST = 90  # seconds of processor time: a mutant that makes a loop endless is caught by this
MODELS = ["toy", "one head", "small", "relu", "tiny", "wide", "embedded"]  # the quickest first
SURVIVED, CAUGHT = "survived", "caught"


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    result: str
    test: str = ""
    message: str = ""
    seconds: float = 0.0


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module the mutant's code in place of its file's."""

    def __init__(self, module: str, path: Path, code: CodeType) -> None:
        self.module, self.path, self.code = module, path, code

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=str(self.path))

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self.path)
        exec(self.code, module.__dict__)


class Witness:
    """A pytest plugin that notes the first test to fail, and what it says."""

    def __init__(self) -> None:
        self.first: tuple[str, str] | None = None

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """All tests on the smallest model come first: most faults show there."""

        def size(item: Any) -> int:
            return next((n for n, name in enumerate(MODELS) if f"[{name}" in item.name), len(MODELS) // 2)

        items.sort(key=size)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed and self.first is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.first = (report.nodeid, crash.message if crash else str(report.longrepr)[-300:])


def import_libraries() -> None:
    """What every mutant's tests import beside our own code: paid for once, before the first fork."""
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HF_HUB_OFFLINE": "1"}
    os.environ.pop("PYTEST_XDIST_WORKER", None)
    import _hypothesis_pytestplugin  # noqa: F401
    import hypothesis.strategies  # noqa: F401
    import numpy.testing  # noqa: F401
    import pytest_timeout  # noqa: F401
    import regex  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: F401

    torch.set_num_threads(1)
    loaded = [name for name in sys.modules if name == "model" or name.startswith(("model.", "app.", "tests.model"))]
    assert not loaded, f"imported too early to be mutated: {loaded}"


def run_tests(mutant: Mutant | None, tests: Sequence[str], answer: Path) -> None:
    """In the child: run the tests with the mutant in place (none: the code as it is) and write what failed first."""
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
    if mutant is not None:
        code = compile(mutant.tree, str(mutant.path), "exec")
        sys.meta_path.insert(0, Mutated(module_of(mutant.path), mutant.path, code))
    os.chdir(ROOT)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    witness = Witness()
    plugins = ["-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]
    code = pytest.main(["-x", "-q", "--no-header", "--tb=line", *plugins, "-k", QUICK, *tests], plugins=[witness])
    test, message = witness.first or ("", "")
    if code and not witness.first:
        test, message = "pytest", f"ended with {code}"
    answer.write_text(json.dumps([test, message]), "utf-8")


def verdicts(mutants: Sequence[Mutant], workers: int, folder: Path) -> Iterator[Verdict]:
    """Each mutant's verdict as it comes in, `workers` at a time."""
    waiting = list(enumerate(mutants))[::-1]
    running: dict[int, tuple[Mutant, Path]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            n, mutant = waiting.pop()
            answer = folder / f"{n}.json"
            tests = target_of(mutant.path).tests_for(mutant.qualified.rpartition(".")[2])
            running[forked(mutant, tests, answer)] = (mutant, answer)
        for pid, (mutant, answer) in list(running.items()):
            ended, _, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                del running[pid]
                yield verdict(mutant, answer, usage.ru_utime + usage.ru_stime)
        time.sleep(0.02)


def forked(mutant: Mutant | None, tests: Sequence[str], answer: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        run_tests(mutant, tests, answer)
    except BaseException as error:
        answer.write_text(json.dumps(["the import", repr(error)]), "utf-8")
    finally:
        os._exit(0)


def verdict(mutant: Mutant, answer: Path, seconds: float) -> Verdict:
    if not answer.exists():
        return Verdict(mutant, CAUGHT, "no test", f"ended after {seconds:.0f} s without an answer", seconds)
    test, message = json.loads(answer.read_text("utf-8"))
    return Verdict(mutant, CAUGHT if test else SURVIVED, test, message, seconds)
