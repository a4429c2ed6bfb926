"""What whoever watches over the server is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings
from app.stores.runs import RunKey

TOKEN = "correct horse"


def watched(app: FastAPI, host: str = "10.0.0.5") -> TestClient:
    return TestClient(app, raise_server_exceptions=False, client=(host, 1))


@pytest.fixture
def app() -> Iterator[FastAPI]:
    app = create_app(AppSettings.model_validate({"model": "toy", "run_queue": 2, "admin_token": TOKEN}))
    yield app
    app.state.services.close()


def test_it_lives_before_it_is_ready_and_is_ready_once_the_model_is_loaded(app: FastAPI):
    client = watched(app)
    assert (client.get("/healthz").status_code, client.get("/healthz").text) == (200, "ok\n")
    early = client.get("/readyz")
    assert early.status_code == 503 and "not loaded" in early.text and early.headers["Retry-After"]
    app.state.services.models.get("")
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, "ready\n")
    assert client.head("/readyz").status_code == 200


def test_a_full_queue_is_not_ready(app: FastAPI, monkeypatch: pytest.MonkeyPatch):
    services, gate = app.state.services, threading.Event()
    services.models.get("")
    compute = services.runs._compute
    monkeypatch.setattr(services.runs, "_compute", lambda key: gate.wait(30) and compute(key))
    waiting: list[Future[object]] = [
        services.runs.submit(RunKey("toy", text, "", True)) for text in ("the cat", "the dog")
    ]
    assert "queue of runs is full" in watched(app).get("/readyz").text
    gate.set()
    for run in waiting:
        run.result(timeout=10)
    deadline = time.monotonic() + 10
    while services.runs.kept.n_making and time.monotonic() < deadline:
        time.sleep(0.01)
    assert watched(app).get("/readyz").status_code == 200


def figures(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f"[{v}]" for _, v in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_figures_say_what_is_held_and_was_asked(app: FastAPI):
    client = watched(app)
    client.get("/api/v1/run", params={"text": "the cat"})
    client.get("/explore", params={"text": "the dog"})
    client.get("/nobody/knows/this/secret/path")
    answer = client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    found = figures(answer.text)
    services = app.state.services
    assert found["everynumber_runs_kept"] == len(services.runs.kept) == 2
    assert found["everynumber_runs_bytes"] == services.runs.kept.nbytes > 0
    assert (
        found["everynumber_models_loaded"] == 1 and found["everynumber_models_bytes"] == services.models.loaded.nbytes
    )
    assert found["everynumber_jobs_waiting"] == found["everynumber_jobs_running"] == 0
    assert found["http_requests_total[/explore][GET][2xx]"] == 1
    assert "secret" not in answer.text and "the%20cat" not in answer.text


def test_each_app_has_figures_of_its_own(app: FastAPI):
    other = create_app(AppSettings(model="toy"))
    watched(other).get("/about")
    assert "/about" not in watched(app).get("/metrics").text


@pytest.mark.parametrize(
    ("metrics", "host", "headers", "status"),
    [
        ("local", "10.0.0.5", {}, 200),
        ("local", "127.0.0.1", {}, 200),
        ("local", "8.8.8.8", {}, 404),
        ("local", "127.0.0.1", {"X-Forwarded-For": "203.0.113.7"}, 404),
        ("local", "8.8.8.8", {"Authorization": f"Bearer {TOKEN}"}, 200),
        ("local", "8.8.8.8", {"Authorization": "Bearer wrong"}, 404),
        ("on", "8.8.8.8", {}, 200),
        ("off", "127.0.0.1", {}, 404),
    ],
)
def test_who_may_read_the_figures(metrics: str, host: str, headers: dict[str, str], status: int):
    app = create_app(AppSettings.model_validate({"model": "toy", "metrics": metrics, "admin_token": TOKEN}))
    assert watched(app, host).get("/metrics", headers=headers).status_code == status
