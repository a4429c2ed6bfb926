"""Jobs: one computation for all who ask, progress, cancel, a bounded queue, faults that harm nobody."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.main import create_app
from app.request.state import State
from app.settings import AppSettings
from app.stores import jobs as jobs_module
from app.stores.budgeted import Busy
from app.stores.jobs import Job, JobStore
from app.stores.learned import Learned, learn, work
from app.stores.models import ModelStore
from app.stores.runs import RunStore
from model import Run
from model.errors import TextError

STATE = State(model="toy", text="the cat sat on the", steps=3)


def store(**settings: int) -> JobStore:
    chosen = AppSettings(model="toy", **settings)  # type: ignore[arg-type]
    return JobStore(RunStore(ModelStore(chosen), chosen), chosen)


def settle(done: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Gate:
    """Holds every job at its first unit of work until it is opened."""

    def __init__(self) -> None:
        self.open, self.calls = threading.Event(), 0

    def learn(self, run: Run, steps: int, advance: Callable[[float], None]) -> Learned:
        self.calls += 1
        advance(1.0)
        while not self.open.wait(0.005):
            advance(2.0)
        return learn(run, steps, advance)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(jobs_module, "learn", gate.learn)
    yield gate
    gate.open.set()


def of(n: int) -> State:
    return State(model="toy", text="the cat sat on the", steps=n + 1)


def test_a_job_takes_the_steps_and_says_how_far_it_is():
    store_, seen = store(), []
    job = store_.start(STATE)
    settle(lambda: job.is_over)
    assert job.stage == "done" and job.result is not None and job.share == 1.0
    assert len(job.result.losses) == 4
    run = ModelStore(AppSettings(model="toy")).get("toy").run(STATE.text)
    learn(run, 3, seen.append)
    assert seen == sorted(seen) and seen[0] > 0 and seen[-1] <= work(3)
    assert job.result.losses == pytest.approx([float(r.tensor("loss")) for r in run.learning.runs])


def test_two_who_ask_for_the_same_share_one_computation(gate: Gate):
    jobs = store()
    first, second = jobs.start(STATE), jobs.start(STATE)
    assert first is second
    gate.open.set()
    settle(lambda: first.is_over)
    assert jobs.start(STATE) is first and gate.calls == 1


def test_cancel_frees_the_worker_and_leaves_the_run_as_it_was(gate: Gate):
    jobs = store()
    running = jobs.start(of(0))
    settle(lambda: running.stage == "running")
    waiting = jobs.start(of(1))
    jobs.cancel(running.id)
    settle(lambda: running.stage == "cancelled")
    settle(lambda: waiting.stage == "running")
    gate.open.set()
    settle(lambda: waiting.stage == "done")
    assert running.result is None
    again = jobs.start(of(0))
    assert again is not running
    settle(lambda: again.stage == "done")


def test_a_job_that_waits_is_called_off_at_once_and_never_runs(gate: Gate):
    jobs = store()
    running, waiting = jobs.start(of(0)), jobs.start(of(1))
    settle(lambda: running.stage == "running")
    assert jobs.ahead_of(waiting) == 1
    jobs.cancel(waiting.id)
    assert waiting.stage == "cancelled"
    gate.open.set()
    settle(lambda: running.is_over)
    time.sleep(0.02)
    assert waiting.stage == "cancelled" and gate.calls == 1


def test_a_full_queue_refuses_one_more_and_takes_it_later(gate: Gate):
    jobs = store(job_queue=2)
    first = jobs.start(of(0))
    settle(lambda: first.stage == "running")
    jobs.start(of(1))
    jobs.start(of(2))
    with pytest.raises(Busy):
        jobs.start(of(3))
    gate.open.set()
    settle(lambda: all((found := jobs.find(jobs.id(of(n)))) is not None and found.is_over for n in range(3)))
    assert jobs.start(of(3)).stage in ("waiting", "running", "done")


def test_faults_end_their_own_job_only(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    jobs = store()
    broken = jobs.start(State(model="toy", text="an unknown word"))
    settle(lambda: broken.is_over)
    assert broken.stage == "failed" and isinstance(broken.error, TextError)

    def crash(*_: object) -> Learned:
        raise ZeroDivisionError

    monkeypatch.setattr(jobs_module, "learn", crash)
    crashed = jobs.start(of(1))
    settle(lambda: crashed.is_over)
    assert crashed.stage == "failed" and crashed.error is None and f"Job {crashed.id} failed" in caplog.text
    monkeypatch.undo()
    well = jobs.start(of(1))
    settle(lambda: well.is_over)
    assert well.stage == "done"


def test_results_stay_within_their_memory():
    jobs = store()
    jobs.kept.budget = 1
    done = [jobs.start(of(n)) for n in range(3)]
    settle(lambda: all(job.is_over for job in done))
    assert jobs.kept.nbytes <= 1
    assert jobs.start(of(0)) is not done[0]


def test_the_id_is_made_of_what_is_computed():
    jobs = store()
    assert jobs.id(STATE) == store().id(State(text=STATE.text, steps=3)) == jobs.id(STATE.select("loss"))
    assert len({jobs.id(of(0)), jobs.id(of(1)), jobs.id(of(0).replace(eta=0.1, optimizer="sgd", steps=1))}) == 3


def test_the_time_left_is_told_once_it_is_known():
    job = Job(10.0, "x", STATE)
    assert job.seconds_left is None
    job.stage, job.began = "running", time.monotonic() - 2
    job.advance(5.0)
    assert job.seconds_left == pytest.approx(2, abs=0.2)


# -- as JSON


@pytest.fixture
def toy_app() -> FastAPI:
    return create_app(AppSettings(model="toy", job_queue=1))


def test_jobs_as_json(toy_app: FastAPI):
    client = TestClient(toy_app)
    asked = {"text": "the cat sat on the", "steps": 2, "eta": 0.05}
    answer = client.post("/api/v1/jobs", json=asked)
    assert answer.status_code in (200, 202)
    id = answer.json()["id"]
    stream = client.get(f"/api/v1/jobs/{id}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.text.rstrip().split("\n\n")[-1].startswith("event: done")
    last = json.loads(stream.text.rstrip().rsplit("data: ", 1)[1])
    assert last["state"] == "done" and last["progress"] == 1
    body = client.get(f"/api/v1/jobs/{id}").json()
    result = body["result"]
    assert len(result["losses"]) == 3 and len(result["along_slope"]) == 41 and result["eta"] == 0.05
    for j, loss in enumerate(result["losses"]):
        at = f"loss.step({j})" if j else "loss"
        assert client.get("/api/v1/explain", params=asked | {"at": at}).json()["value"] == pytest.approx(loss, rel=1e-6)
    target = result["tokens"][0]
    at = f"probs[5,{target['id']}].step(2)"
    value = client.get("/api/v1/values", params=asked | {"at": at}).json()["values"]
    assert value == pytest.approx(target["probabilities"][2])
    assert client.post("/api/v1/jobs", json=asked).status_code == 200
    assert "/api/v1/jobs" in client.get("/api/v1/openapi.json").json()["paths"]


def test_json_of_jobs_says_what_is_wrong(toy_app: FastAPI):
    client = TestClient(toy_app)
    for body, part in (({"steps": 0}, "steps"), ({"eta": -1}, "eta"), ({"set": ["embed[0,0]=1"]}, "set")):
        answer = client.post("/api/v1/jobs", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["part"] == part and answer.json()["error"]["hint"]
    assert client.get("/api/v1/jobs/nobody").status_code == 404
    assert client.delete("/api/v1/jobs/nobody").status_code == 404
    broken = client.post("/api/v1/jobs", json={"text": "an unknown word"})
    settle(lambda: client.get(f"/api/v1/jobs/{broken.json()['id']}").status_code == 400)


def test_a_full_queue_answers_503_and_delete_makes_room(toy_app: FastAPI, gate: Gate):
    client = TestClient(toy_app)
    ids = [client.post("/api/v1/jobs", json={"steps": n}).json()["id"] for n in (1,)]
    settle(lambda: client.get(f"/api/v1/jobs/{ids[0]}").json()["state"] == "running")
    ids.append(client.post("/api/v1/jobs", json={"steps": 2}).json()["id"])
    for answer in (client.post("/api/v1/jobs", json={"steps": 3}), client.get("/learn?steps=3")):
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
    assert client.delete(f"/api/v1/jobs/{ids[1]}").json()["state"] == "cancelled"
    assert client.post(f"/api/v1/jobs/{ids[0]}/cancel").json()["state"] == "cancelled"
    gate.open.set()
    assert client.post("/api/v1/jobs", json={"steps": 3}).status_code in (200, 202)


def test_steps_of_a_large_model_are_left_to_a_job(toy_app: FastAPI, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.server.process.LARGE", 10)
    client, asked = TestClient(toy_app), {"text": "the cat sat", "eta": 0.05, "steps": 2}
    for route in ("values", "explain"):
        answer = client.get(f"/api/v1/{route}", params=asked | {"at": "loss.step(2)"})
        assert answer.status_code == 409 and "/api/v1/jobs" in answer.json()["error"]["hint"]
        assert client.get(f"/api/v1/{route}", params=asked | {"at": "loss.grad"}).status_code == 200
    id = client.post("/api/v1/jobs", json=asked).json()["id"]
    settle(lambda: client.get(f"/api/v1/jobs/{id}").json()["state"] == "done")
    assert client.get("/api/v1/explain", params=asked | {"at": "loss.step(2)"}).status_code == 200
