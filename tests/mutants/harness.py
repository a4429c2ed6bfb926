"""Runs tests on mutants: each in a process forked from one that has imported all libraries and none of our code."""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tests.mutants.sources import Mutant
from tests.mutants.targets import BY_MODEL, QUICK, ROOT, SMALLEST, TARGETS, module_of, target_of

LONGEST = 200  # seconds of processor time, after which a mutant's tests are given up
MODELS = ["toy", "one head", "small", "relu", "tiny", "wide", "embedded"]  # the quickest first
SURVIVED, CAUGHT, UNCLEAR = "survived", "caught", "unclear"


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
    gc.freeze()  # children share this memory as long as nobody counts in it
    gc.disable()
    loaded = [name for name in sys.modules if name == "model" or name.startswith(("model.", "app.", "tests.model"))]
    assert not loaded, f"imported too early to be mutated: {loaded}"


def rounds(tests: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Which tests of which file come first: of all files those on the smallest models, then the rest.

    One file at a time: most faults show in the first, and collecting a file's tests takes as long as running some.
    """
    by_model = [test for test in tests if test in BY_MODEL]
    yield from ((f"({QUICK}) and ({SMALLEST})", test) for test in by_model)
    yield from ((f"({QUICK}) and not ({SMALLEST})" if test in by_model else QUICK, test) for test in tests)


def run_tests(mutant: Mutant | None, tests: Sequence[str], answer: Path) -> None:
    """In the child: run the tests with the mutant in place (none: the code as it is) and write what failed first."""
    import pytest

    if mutant is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        code = compile(mutant.tree, str(mutant.path), "exec")
        sys.meta_path.insert(0, Mutated(module_of(mutant.path), mutant.path, code))
    os.chdir(ROOT)
    warnings.simplefilter("ignore")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    witness = Witness()
    plugins = ["-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]
    for chosen, test in rounds(tests):
        code = pytest.main(["-x", "-q", "--no-header", "--tb=line", *plugins, "-k", chosen, test], plugins=[witness])
        if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            break
        code = 0
    answer.write_text(json.dumps(witness.first or (("pytest", f"ended with {code}") if code else ("", ""))), "utf-8")


def verdicts(mutants: Sequence[Mutant], workers: int, folder: Path) -> Iterator[Verdict]:
    """Each mutant's verdict as it comes in, `workers` at a time."""
    waiting = list(enumerate(mutants))[::-1]
    running: dict[int, tuple[Mutant, Path]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            n, mutant = waiting.pop()
            answer = folder / f"{n}.json"
            function, kind = mutant.qualified.rpartition(".")[2], mutant.kind.removeprefix("named, ")
            tests = target_of(mutant.path).tests_for(function, kind)
            running[forked(mutant, tests, answer)] = (mutant, answer)
        for pid, (mutant, answer) in list(running.items()):
            ended, _, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                del running[pid]
                yield verdict(mutant, answer, usage.ru_utime + usage.ru_stime)
        time.sleep(0.02)


def fault_without_mutant(folder: Path) -> str:
    """What fails in the code as it is: then nothing could be said of a mutant. "" where all is well."""
    tests = tuple(dict.fromkeys(test for target in TARGETS for test in target.tests))
    answer = folder / "none.json"
    os.waitpid(forked(None, tests, answer), 0)
    return " ".join(json.loads(answer.read_text("utf-8"))) if answer.exists() else "the tests did not come to an end"


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
        return Verdict(mutant, UNCLEAR, "no test", f"ended after {seconds:.0f} s without an answer", seconds)
    test, message = json.loads(answer.read_text("utf-8"))
    return Verdict(mutant, CAUGHT if test else SURVIVED, test, message, seconds)
