"""`make rehearse`: what the Dockerfile says, done without Docker in a new directory, and then looked at.

Each RUN, COPY, ENV, WORKDIR and CMD is read from the Dockerfile and carried out below a new directory that stands for
the image's root (`/opt/venv` there is DIR/opt/venv). Packages are installed anew, as written; files come from the last
commit, as far as .dockerignore lets them. The files are then made read-only, the server is started with the image's
environment alone, as another user where this is run by root, and asked for its health and pages; then it is stopped.

Not exercised: the base image and its own commands (`apt-get`, `useradd`, `chown`), layers, capabilities, the network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

REPOSITORY = Path(__file__).resolve().parent.parent
USER = 10001
OF_THE_BASE = ("apt-get", "useradd", "mkdir -p /models")  # commands that need a root file system of their own

# What pip is told from outside, such as where packages lie, holds here too.
PASSED_ON = ("PIP_", "SSL_", "HTTPS_PROXY", "https_proxy", "LANG", "XDG_CONFIG_DIRS")


@dataclass
class Stage:
    """One FROM and what follows it, each instruction as (name, rest of the line)."""

    base: str
    name: str = ""
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
        found: list[str] = json.loads(rest.partition("CMD ")[2])
        return found

    def command(self) -> list[str]:
        (rest,) = self.all("CMD")
        found: list[str] = json.loads(rest)
        return found


def stages() -> list[Stage]:
    """The Dockerfile, read."""
    text = (REPOSITORY / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        name, rest = line.split(maxsplit=1)
        if name == "FROM":
            base, _, own = rest.partition(" AS ")
            found.append(Stage(base, own))
        else:
            found[-1].steps.append((name, rest))
    return found


class Image:
    """A directory that stands for the image's root, in which the Dockerfile's instructions are carried out."""

    def __init__(self, root: Path, arguments: dict[str, str]) -> None:
        self.root, self.arguments = root, arguments
        self.context = root / "context"
        self.environment: dict[str, str] = {}
        self.workdir = "/"
        self.as_user: list[str] = []

    def at(self, path: str) -> Path:
        """A path of the image."""
        return self.root / path.lstrip("/") if path.startswith("/") else self.root / self.workdir.lstrip("/") / path

    def here(self, text: str) -> str:
        """A command of the image with its own directories where they lie here."""
        return re.sub(r"(?<![\w./])/(opt/venv|models|build|srv/every-number)\b", rf"{self.root}/\1", text)

    def variables(self) -> dict[str, str]:
        """What a command of the image finds: its environment, and what is passed on to pip."""
        outside = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        path = f"{self.here('/opt/venv/bin')}:{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        own = {name: self.here(value) for name, value in self.environment.items() if name != "PATH"}
        return {**outside, **self.arguments, **own, "PATH": path, "HOME": str(self.root / "home")}

    def carry_out(self, stage: Stage) -> None:
        """All of a stage but what starts it."""
        self.environment, self.workdir = stage.environment(), "/"
        for name, rest in stage.steps:
            if name == "WORKDIR":
                self.workdir = rest
                self.at(".").mkdir(parents=True, exist_ok=True)
            elif name == "COPY" and "--from=" not in rest:
                *sources, target = rest.split()
                for source in sources:
                    self.copy(source, target)
            elif name == "RUN" and not rest.startswith(OF_THE_BASE):
                self.run(rest)

    def copy(self, source: str, target: str) -> None:
        found, goal = self.context / source, self.at(target)
        if found.is_dir():
            shutil.copytree(found, goal, dirs_exist_ok=True)
        else:
            shutil.copy(found, goal / found.name if target.endswith("/") else goal)

    def run(self, command: str) -> None:
        print(f"RUN {command}", flush=True)
        began = time.monotonic()
        subprocess.run(
            ["/bin/sh", "-euc", self.here(command)], cwd=self.at("."), env=self.variables(), check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        print(f"    {time.monotonic() - began:.0f} s", flush=True)

    def bring(self) -> None:
        """The build's context: what is committed and not left out by .dockerignore."""
        allowed = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
        self.context.mkdir()
        archive = subprocess.run(
            ["git", "archive", "HEAD", *allowed], cwd=REPOSITORY, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", self.context], input=archive, check=True)

    def close(self) -> None:
        """Nobody may write any more, but to the volume."""
        models = self.root / "models"
        models.mkdir(exist_ok=True)
        for path in [self.root, *self.root.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~0o222 | 0o444 | (0o111 if path.is_dir() else 0))
        models.chmod(0o777)

    def command(self, given: list[str]) -> list[str]:
        """A command of the image as its user."""
        found = [self.here(part) for part in given]
        found[0] = str(self.root / "opt/venv/bin" / found[0])
        return [*self.as_user, *found]

    def become(self) -> str:
        """Find out how commands are run as the image's user. Returns what there is to say about it."""
        if os.geteuid() != 0:
            return "run by an ordinary user"
        if shutil.which("setpriv") is None:
            return "run by root: there is no setpriv here"
        way = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"]
        python = str(self.root / "opt/venv/bin/python")
        if subprocess.run([*way, python, "-c", ""], capture_output=True, check=False).returncode:
            return "run by root: another user may not read this Python"
        self.as_user = way
        return f"run as user {USER}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def look(image: Image, stage: Stage) -> Iterator[str]:
    """Start what the image starts, ask it, stop it. Yields what was found."""
    port = free_port()
    variables = image.variables() | {"EVERYNUMBER_HOST": "127.0.0.1", "EVERYNUMBER_PORT": str(port)}
    before = sorted(map(str, image.root.rglob("*")))
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            image.command(stage.command()),
            cwd=image.at(stage.all("WORKDIR")[-1]),
            env=variables,
            stdout=log,
            stderr=log,
        )
        try:
            check = image.command(stage.health_check())
            began = time.monotonic()
            while subprocess.run(check, env=variables, capture_output=True, check=False).returncode:
                if server.poll() is not None or time.monotonic() - began > 120:
                    log.seek(0)
                    raise SystemExit(f"it did not become healthy:\n{log.read()}")
            yield f"healthy after {time.monotonic() - began:.1f} s"
            for path in ("/readyz", "/", "/explore", "/static/base.css", "/api/v1/run?text=Hello"):
                with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                    yield f"{path}: {answer.status}, {len(answer.read()):,} bytes"
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(timeout=60)
        log.seek(0)
        lines = log.read().splitlines()
        if code:
            raise SystemExit("\n".join([*lines, f"it ended with exit code {code}"]))
        yield "it ended with exit code 0 on SIGTERM"
        records = [json.loads(line) for line in lines if line.startswith("{")]
        yield f"{len(records)} log records in JSON"
    written = sorted(set(map(str, image.root.rglob("*"))) - set(before))
    outside = [path for path in written if not path.startswith(f"{image.root}/models")]
    if outside:
        raise SystemExit(f"it wrote outside of its volume: {outside[:5]}")
    yield "it wrote nothing outside of its volume"


def size(directory: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, help="where to build; left out: a temporary directory, removed at the end")
    parser.add_argument("--build-arg", action="append", default=[], help="as for docker build, e.g. TORCH_INDEX=…")
    parser.add_argument(
        "--venv", type=Path, help="take this environment instead of installing one: quick, but less told"
    )
    given = parser.parse_args()
    build, final = stages()
    with tempfile.TemporaryDirectory(prefix="every-number-") as temporary:
        root = (given.dir or Path(temporary)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o755)
        defaults = dict(argument.replace('"', "").split("=", 1) for argument in build.all("ARG"))
        image = Image(root, defaults | dict(argument.split("=", 1) for argument in given.build_arg))
        image.bring()
        if given.venv:
            (root / "opt").mkdir()
            (root / "opt/venv").symlink_to(given.venv.resolve())
        else:
            image.carry_out(build)
        image.carry_out(final)
        shutil.rmtree(image.context)
        shutil.rmtree(root / "build", ignore_errors=True)
        print(f"size: {size(root) / 1e6:,.0f} MB beside the base image", flush=True)
        image.close()
        print(image.become(), flush=True)
        for found in look(image, final):
            print(found, flush=True)
        for path in root.rglob("*"):  # so that it can be removed
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
    print(f"rehearsed: {shlex.join(final.command())}")


if __name__ == "__main__":
    main()
