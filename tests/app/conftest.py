"""One app on the shipped models, asked through Starlette's test client."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings
from model.arch.gpt2.config import GPT2Config
from model.loading import EMBEDDED
from model.weights.checkpoints import save_network
from tests.model.models import random_network

if TYPE_CHECKING:
    from tests.app.shown_numbers import Reader

TEXT = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="session")
def app() -> FastAPI:
    return create_app(AppSettings(rate="", rate_costly=""))  # all tests are one client


@pytest.fixture(scope="session")
def client(app: FastAPI) -> TestClient:
    """Errors become answers, as a reader meets them."""
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="session")
def wide_app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """The app with a checkpoint of random weights beside its own models."""
    directory = save_checkpoint(tmp_path_factory.mktemp("models") / "random")
    return create_app(AppSettings(models=str(directory)))


@pytest.fixture(scope="session")
def wide_client(wide_app: FastAPI) -> TestClient:
    return TestClient(wide_app, raise_server_exceptions=False)


@pytest.fixture(scope="session")
def reader(wide_app: FastAPI) -> Reader:
    """Reads back the numbers of pages."""
    from tests.app.shown_numbers import Reader

    return Reader(wide_app)


def save_checkpoint(directory: Path, *, n_layer: int = 2, n_head: int = 2, d_model: int = 24, n_ctx: int = 64) -> Path:
    """A checkpoint with random weights and the embedded model's vocabulary."""
    directory.mkdir(parents=True)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(EMBEDDED / name, directory)
    d_vocab = json.loads((EMBEDDED / "config.json").read_text())["vocab_size"]
    config = GPT2Config(n_layer, n_head, d_model, 4 * d_model, d_vocab, n_ctx)
    save_network(directory, random_network(config, scale=6.0), start_id=0)
    return directory


HERE = {"base_url": "http://127.0.0.1:8000", "client": ("127.0.0.1", 50000)}


def local(app: FastAPI) -> TestClient:
    """A browser on the server's own machine."""
    return TestClient(app, raise_server_exceptions=False, **HERE)  # type: ignore[arg-type]


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)
