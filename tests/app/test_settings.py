"""Settings, and what serving does with wrong ones."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import pytest
import torch
from pydantic import ValidationError

from app.main import create_app
from app.settings import AppSettings
from app.stores.models import ModelStore
from model.errors import CheckpointError, UnknownModel
from model.runtime.device import DeviceError
from tests.app.conftest import save_checkpoint


def serve(environment: dict[str, str], root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app"], cwd=root, env={**os.environ, **environment}, text=True, capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EVERYNUMBER_PORT", "8123")
    monkeypatch.setenv("EVERYNUMBER_MODEL", "toy")
    settings = AppSettings()
    assert (settings.port, settings.model) == (8123, "toy")


@pytest.mark.parametrize(
    ("name", "value"),
    [("run_memory_mb", -1), ("run_memory_mb", float("nan")), ("port", 99_999), ("run_threads", 0), ("max_numbers", 0)],
)
def test_settings_out_of_range_are_refused(name: str, value: float):
    with pytest.raises(ValidationError):
        AppSettings.model_validate({name: value})


def test_a_wrong_setting_is_named_in_one_line(root: Path):
    done = serve({"EVERYNUMBER_RUN_MEMORY_MB": "-5"}, root)
    assert done.returncode == 2
    assert done.stderr.startswith("EVERYNUMBER_RUN_MEMORY_MB=-5: ") and done.stderr.count("\n") == 1


def test_a_taken_port_is_told(root: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve({"EVERYNUMBER_PORT": str(port)}, root)
    assert done.returncode == 1
    assert f"port {port}" in done.stderr and "EVERYNUMBER_PORT=" in done.stderr and "Traceback" not in done.stderr


def test_it_says_where_it_is_once_it_answers_and_stops_quietly(root: Path):
    serving = subprocess.Popen(
        [sys.executable, "-m", "app"], cwd=root, env={**os.environ, "EVERYNUMBER_PORT": "0"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert serving.stdout is not None
    said = re.fullmatch(r"Every Number: (http://127\.0\.0\.1:\d+/)\n", serving.stdout.readline())
    assert said is not None
    with urlopen(said[1] + "healthz") as answer:
        assert answer.read() == b"ok\n"
    serving.send_signal(signal.SIGINT)
    _, complaints = serving.communicate(timeout=30)
    assert serving.returncode == 0 and complaints == ""


def test_an_unknown_default_model_is_told(tmp_path: Path):
    with pytest.raises(UnknownModel, match="nowhere"):
        create_app(AppSettings(model=str(tmp_path / "nowhere")))


def test_models_are_found_in_directories(tmp_path: Path):
    save_checkpoint(tmp_path / "many" / "first")
    save_checkpoint(tmp_path / "many" / "second")
    single = save_checkpoint(tmp_path / "single")
    (tmp_path / "many" / "notes").mkdir()
    store = ModelStore(AppSettings(model=str(single), models=str(tmp_path / "many")))
    assert [entry.name for entry in store] == ["embedded", "toy", "single", "first", "second"]
    assert store.default == "single" and store.entry("").name == "single"
    assert store.get("second").config.n_layer == 2


def test_a_checkpoint_that_does_not_fit_is_left_out_of_many_but_refused_alone(tmp_path: Path):
    broken = tmp_path / "many" / "broken"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text('{"n_layer": 2}')
    assert "broken" not in ModelStore(AppSettings(models=str(tmp_path / "many")))
    with pytest.raises(CheckpointError, match="n_head"):
        ModelStore(AppSettings(model=str(broken)))


def test_two_models_of_one_name_are_refused(tmp_path: Path):
    save_checkpoint(tmp_path / "toy")
    with pytest.raises(CheckpointError, match="toy"):
        ModelStore(AppSettings(models=str(tmp_path / "toy")))


def test_a_name_is_never_a_path(tmp_path: Path):
    directory = save_checkpoint(tmp_path / "here")
    store = ModelStore(AppSettings())
    for name in (str(directory), "../toy", "toy/", "embedded/../toy", "\0", "TOY"):
        with pytest.raises(UnknownModel):
            store.entry(name)


def test_parameters_are_counted_as_the_network_holds_them():
    store = ModelStore(AppSettings())
    for entry in store:
        assert entry.n_parameters == store.get(entry.name).n_parameters


def test_a_model_is_loaded_once(tmp_path: Path):
    store = ModelStore(AppSettings())
    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(id, pool.map(store.get, ["toy"] * 8)))) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch has a GPU here")
def test_a_gpu_that_is_not_there_is_told_at_the_start() -> None:
    with pytest.raises(DeviceError, match="no GPU"):
        create_app(AppSettings(device="cuda"))
    with pytest.raises(ValidationError):
        AppSettings(device="tpu")  # type: ignore[arg-type]


def test_the_table_of_settings_is_what_the_code_has(root: Path):
    table = (root / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `EVERYNUMBER_(\w+)` \| (.*?) \| (.+) \|$", table, re.M)
    written = {name.lower(): (default.strip(), meaning) for name, default, meaning in rows}
    assert list(written) == list(AppSettings.model_fields)
    for name, field in AppSettings.model_fields.items():
        default = field.default.get_secret_value() if name == "admin_token" else field.default
        shown = f"{default:g}" if name.endswith("seconds") else str(default)
        shown = shown.lower() if isinstance(default, bool) else shown
        row = f"| `EVERYNUMBER_{name.upper()}` | {shown} | {field.description} |"
        assert written[name] == (shown, field.description), f"docs/settings.md should say {row}"


@pytest.mark.parametrize(
    ("name", "value"),
    [("public_url", "numbers.example.org"), ("public_url", "https://x/y"), ("frame_ancestors", "x; script-src *"),
     ("frame_ancestors", ""), ("log", "xml"), ("metrics", "yes"), ("rate", "fast"), ("workers", 0)],
)  # fmt: skip
def test_settings_that_say_nothing_are_refused(name: str, value: object):
    with pytest.raises(ValidationError):
        AppSettings.model_validate({name: value})
