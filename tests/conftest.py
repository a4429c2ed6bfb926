"""What all tests share: fixed threads and seeds, no network, and the neighbouring folder of shared data."""

from __future__ import annotations

import os
import random
import socket
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings

ROOT = Path(__file__).resolve().parent.parent

# Before torch is imported anywhere: a thread per core up to four, or one in each of several parallel test workers.
os.environ["OMP_NUM_THREADS"] = "1" if "PYTEST_XDIST_WORKER" in os.environ else str(min(4, os.cpu_count() or 1))
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

# A developer’s own settings must not change what the tests see; where Chromium and GPT-2 lie may come from outside.
FROM_OUTSIDE = ("EVERYNUMBER_CHROMIUM", "EVERYNUMBER_GPT2")
for directory in map(Path, filter(None, os.environ.get("EVERYNUMBER_MODELS", "").split(os.pathsep))):
    for found in (directory, directory / "gpt2"):
        if found.name == "gpt2" and (found / "config.json").exists():
            os.environ.setdefault("EVERYNUMBER_GPT2", str(found))
for name in [name for name in os.environ if name.startswith("EVERYNUMBER_") and name not in FROM_OUTSIDE]:
    del os.environ[name]

# The same examples in every run, and no limit in milliseconds: machines differ.
hypothesis_settings.register_profile("everynumber", derandomize=True, deadline=None)
hypothesis_settings.load_profile("everynumber")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: the quick ones speak first, and playwright's event loop is in no other test's way."""
    browser = ROOT / "tests" / "browser"
    items.sort(key=lambda item: browser in item.path.parents)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests on GPT-2's published weights measured: `record_property("float32", …)`."""
    passed = terminalreporter.getreports("passed")
    if found := [says for report in passed for name, says in report.user_properties if name == "float32"]:
        terminalreporter.section("differences in float32, relative to the largest number")
        for says in found:
            terminalreporter.write_line(str(says))


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Each test starts from the same random state, whatever ran before it."""
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


def is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Nothing that runs in the test process may reach another machine: the app needs none."""
    connect = socket.socket.connect

    def loopback_only(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_this_machine(address[0]):
            raise AssertionError(f"a test tried to reach {address[0]}: only this machine may be asked")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", loopback_only)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the checkout, which holds data too large for it; not everyone has one."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip("there is no folder ../shared beside the checkout")
    return path
