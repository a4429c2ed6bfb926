"""The app on models so small that a request takes milliseconds."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings
from tests.app.conftest import save_checkpoint
from tests.fuzz import profiles

profiles.register(times=40)

# Nothing is fetched, nothing is counted against the one client, and few numbers are many.
SETTINGS = {"downloads": "off", "rate": "", "rate_costly": "", "max_numbers": 5_000, "max_file_numbers": 20_000,
            "generate_seconds": 0.05, "run_memory_mb": 64}  # fmt: skip


@pytest.fixture(scope="package")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    directory = save_checkpoint(tmp_path_factory.mktemp("models") / "tiny", n_layer=1, d_model=8, n_ctx=32)
    known = {name: value for name, value in SETTINGS.items() if name in AppSettings.model_fields}
    return create_app(AppSettings(model=str(directory), **known))


@pytest.fixture(scope="package")
def client(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False, follow_redirects=False)
