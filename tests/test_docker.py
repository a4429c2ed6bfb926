"""The image, as far as it can be judged without a Docker engine: what it is made of, run as it would run it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from app.settings import AppSettings
from deploy.rehearse import OF_THE_BASE, free_port, stages

ROOT = Path(__file__).resolve().parent.parent


def committed(source: str) -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "--", source]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


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
    assert all(rest.startswith((*OF_THE_BASE, "python -m compileall")) for rest in image.all("RUN"))
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
    log = tmp_path / "log"
    with log.open("w") as output:
        app = subprocess.Popen(
            python(image.command()), cwd=tmp_path, env=environment, stdout=output, stderr=subprocess.STDOUT
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


def test_the_image_keeps_models_in_a_volume_its_user_may_write():
    image = stages()[-1]
    (volume,) = image.all("VOLUME")
    here = image.environment()
    assert here["HF_HOME"].startswith(f"{volume}/") and here["EVERYNUMBER_MODELS"] == volume
    assert any(re.search(rf"chown -R 10001:10001 {volume}$", rest) for rest in image.all("RUN"))
    assert any("--uid 10001 " in rest for rest in image.all("RUN"))


def test_every_setting_that_the_image_and_compose_name_exists(monkeypatch: pytest.MonkeyPatch):
    known = {f"EVERYNUMBER_{name.upper()}" for name in AppSettings.model_fields}
    compose = (ROOT / "compose.yaml").read_text()
    named = set(re.findall(r"EVERYNUMBER_[A-Z_]+", (ROOT / "Dockerfile").read_text() + compose))
    assert len(named) > 5 and named <= known, named - known
    for name, value in stages()[-1].environment().items():
        monkeypatch.setenv(name, value)
    assert (AppSettings().host, AppSettings().log, AppSettings().log_level) == ("0.0.0.0", "json", "info")
    grace = re.search(r"stop_grace_period: (\d+)s", compose)
    assert grace and int(grace[1]) > AppSettings().stop_seconds


def test_the_proxy_asks_the_app_where_it_listens_and_keeps_what_watches_inside():
    proxy = (ROOT / "deploy" / "Caddyfile").read_text()
    compose = (ROOT / "compose.yaml").read_text()
    port = stages()[-1].environment()["EVERYNUMBER_PORT"]
    assert f"reverse_proxy {{$PREFIX}}/* app:{port}" in proxy and re.search(r"^  app:$", compose, re.M)
    assert "EVERYNUMBER_TRUSTED_HOPS: 1" in compose and compose.count("read_only: true") == 2
    for path in ("/metrics", "/readyz"):
        assert f"{{$PREFIX}}{path}" in proxy
    assert proxy.count("{") == proxy.count("}")


def test_the_rehearsal_carries_out_the_dockerfile(tmp_path: Path):
    """With the environment that is here; `make rehearse` installs one."""
    committed("Dockerfile")
    command = [sys.executable, "deploy/rehearse.py", "--venv", sys.prefix]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    for told in ("RUN python -m compileall", "healthy after", "/explore: 200", "exit code 0", "wrote nothing outside"):
        assert told in done.stdout
