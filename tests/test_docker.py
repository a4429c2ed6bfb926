"""The image, as far as it can be judged without a Docker engine: what it is made of, run as it would run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Stage:
    """One FROM and what follows it, each instruction as (name, rest of the line)."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, name: str) -> list[str]:
        return [rest for instruction, rest in self.steps if instruction == name]

    def copied(self) -> list[str]:
        """What comes from the checkout."""
        return [source for rest in self.all("COPY") if "--from=" not in rest for source in rest.split()[:-1]]

    def environment(self) -> dict[str, str]:
        return dict(re.findall(r"(\w+)=(\S+)", " ".join(self.all("ENV"))))

    def health_check(self) -> list[str]:
        (rest,) = self.all("HEALTHCHECK")
        return json.loads(rest.partition("CMD ")[2])


def stages() -> list[Stage]:
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        name, rest = line.split(maxsplit=1)
        if name == "FROM":
            found.append(Stage(rest.split()[0]))
        else:
            found[-1].steps.append((name, rest))
    return found


def committed(source: str) -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "--", source]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_every_base_is_a_slim_python_that_the_project_supports():
    for stage in stages():
        image = re.fullmatch(r"python:3\.(\d+)-slim", stage.base)
        assert image and int(image[1]) >= 11, stage.base


def test_every_source_is_committed_and_not_ignored():
    ignore = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert ignore[0] == "*"
    for stage in stages():
        for source in stage.copied():
            assert committed(source), f"COPY {source}: git has no such file"
            assert f"!{source}" in ignore, f"COPY {source}: .dockerignore leaves it out"


def test_the_embedded_model_is_inside():
    assert "model" in stages()[-1].copied()
    assert any(name.endswith(".safetensors") for name in committed("model/embedded"))


def test_packages_come_pinned_and_from_an_index_that_the_builder_may_add():
    build = stages()[0]
    assert 'TORCH_INDEX=""' in build.all("ARG")
    (install,) = [rest for rest in build.all("RUN") if "pip install" in rest]
    assert "-c constraints.txt" in install
    assert '${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"}' in install


def test_it_serves_as_an_ordinary_user_on_the_port_it_exposes():
    image = stages()[-1]
    (user,) = image.all("USER")
    assert user not in ("root", "0")
    assert any(re.search(rf"useradd .*\b{user}$", rest) for rest in image.all("RUN"))
    names = [name for name, _ in image.steps]
    assert names.index("USER") > max(index for index, name in enumerate(names) if name in ("RUN", "COPY"))
    assert image.all("EXPOSE") == [image.environment()["EVERYNUMBER_PORT"]]
    assert image.environment()["EVERYNUMBER_HOST"] == "0.0.0.0"


def test_the_copied_files_serve_and_the_health_check_tells(tmp_path: Path):
    image = stages()[-1]
    for source in image.copied():
        shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
    port = free_port()
    environment = {**os.environ, "EVERYNUMBER_HOST": "127.0.0.1", "EVERYNUMBER_PORT": str(port)}

    def python(command: list[str]) -> list[str]:
        assert command[0] == "python"
        return [sys.executable, *command[1:]]

    def healthy() -> bool:
        check = python(image.health_check())
        return subprocess.run(check, env=environment, capture_output=True, check=False).returncode == 0

    assert not healthy()
    (command,) = image.all("CMD")
    log = tmp_path / "log"
    with log.open("w") as output:
        app = subprocess.Popen(
            python(json.loads(command)), cwd=tmp_path, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 60
        while not healthy():
            assert app.poll() is None and time.monotonic() < deadline, log.read_text()
        with urlopen(f"http://127.0.0.1:{port}/", timeout=60) as page:
            assert page.status == 200
            assert "text/html" in page.headers["Content-Type"]
    finally:
        app.terminate()
        app.wait(timeout=30)
