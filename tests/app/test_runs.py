"""The run cache: once for all who ask, within its memory, errors not kept."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.request.state import State
from app.settings import AppSettings
from app.stores.budgeted import Busy
from app.stores.models import ModelStore
from app.stores.runs import RunKey, RunStore
from model import LanguageModel, Run
from model.errors import TargetError, TextError, UnknownModel

TOY = RunKey("toy", "the cat sat", "", True)


def store(**settings: int) -> RunStore:
    chosen = AppSettings(model="toy", **settings)  # type: ignore[arg-type]
    return RunStore(ModelStore(chosen), chosen)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were really run; each takes a moment."""
    texts: list[str] = []
    really = LanguageModel.run

    def run(self: LanguageModel, text: str, target: str | None = None, **settings: Any) -> Run:
        texts.append(text)
        time.sleep(0.05)
        return really(self, text, target, **settings)

    monkeypatch.setattr(LanguageModel, "run", run)
    return texts


def texts_of(n: int) -> list[str]:
    """Different texts of the toy's words."""
    words = [" cat", " sat", " on", " the", " mat", " dog"]
    return [f"the{words[i % 6]}{words[i // 6]}" for i in range(n)]


def test_threads_that_ask_at_the_same_time_share_one_run(count: list[str]):
    runs, start = store(), threading.Barrier(20)

    def ask() -> Run:
        start.wait()
        return runs.submit(TOY).result().run

    with ThreadPoolExecutor(20) as pool:
        found = [future.result() for future in [pool.submit(ask) for _ in range(20)]]
    assert len(count) == 1
    assert len(set(map(id, found))) == 1
    assert runs.submit(TOY).result().run is found[0] and len(count) == 1


def test_requests_that_come_at_the_same_time_share_one_run(count: list[str]):
    client, start = TestClient(create_app(AppSettings(model="toy"))), threading.Barrier(20)

    def ask(n: int) -> int:
        start.wait()
        path = ("/explore", "/api/v1/run")[n % 2]
        return client.get(path, params={"text": "the dog sat on"}).status_code

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(ask, range(20))) == {200}
    assert count == ["the dog sat on"]


def test_runs_stay_within_the_memory_budget_and_the_latest_used_stay():
    runs = store()
    texts = texts_of(14)
    keys = [RunKey("toy", text, "", True) for text in texts]
    sizes = [runs.submit(key).result().run.nbytes for key in keys]
    runs.kept.budget = sum(sizes) // 2
    first = runs.submit(keys[0]).result().run
    for key in keys[1:]:
        runs.submit(key).result()
        runs.submit(keys[0]).result()
        runs.use_here(State(text=keys[0].text), lambda run: None)
        assert runs.kept.nbytes <= runs.kept.budget
    assert runs.submit(keys[0]).result().run is first
    assert 1 < len(runs.kept) < len(keys)


def test_what_a_run_derives_is_counted():
    runs = store()
    before = runs.submit(TOY).result().run.nbytes

    def read(run: Run) -> int:
        run.tensor("blocks.0.attn.result")
        return run.nbytes

    after = asyncio.run(runs.use(State(text="the cat sat"), read))
    assert before < after == runs.kept.nbytes


def test_a_run_that_is_larger_than_the_budget_is_served_but_not_kept():
    runs = store()
    runs.submit(TOY).result()
    runs.kept.budget = 10
    other = RunKey("toy", "the dog", "", True)
    assert runs.submit(other).result().run.text == "the dog"
    settle(lambda: len(runs.kept) == 0)
    assert runs.kept.nbytes == 0


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (RunKey("toy", "an unknown word", "", True), TextError),
        (RunKey("toy", "", "", False), TextError),
        (RunKey("toy", "the cat", "the cat", True), TargetError),
    ],
)
def test_errors_reach_everyone_and_are_not_kept(key: RunKey, kind: type[Exception]):
    runs = store()
    for _ in range(2):
        with pytest.raises(kind):
            runs.submit(key).result()
    settle(lambda: not runs.kept.n_making)
    assert len(runs.kept) == 0


def test_an_unknown_model_is_refused_before_anything_is_queued():
    with pytest.raises(UnknownModel):
        store().key(State(model="nobody"))


def test_the_default_model_by_name_or_not_is_one_run():
    runs = store()
    assert runs.key(State(text="the")) == runs.key(State(model="toy", text="the"))


def test_a_full_queue_says_so(count: list[str]):
    runs = store(run_queue=2, run_threads=1)
    keys = [RunKey("toy", text, "", True) for text in texts_of(3)]
    flights = [runs.submit(key) for key in keys[:2]]
    with pytest.raises(Busy):
        runs.submit(keys[2])
    assert runs.submit(keys[1]) is flights[1]
    for flight in flights:
        flight.result()
    settle(lambda: not runs.kept.n_making)
    assert runs.submit(keys[2]).result().run.text == keys[2].text


def test_a_full_queue_answers_503_with_a_time_to_retry(monkeypatch: pytest.MonkeyPatch):
    app = create_app(AppSettings(model="toy"))
    client = TestClient(app)

    def full(_key: RunKey) -> None:
        raise Busy

    monkeypatch.setattr(app.state.services.runs, "submit", full)
    for path in ("/explore?text=the", "/api/v1/run?text=the"):
        answer = client.get(path)
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0


def test_a_reader_who_leaves_takes_the_run_from_nobody(count: list[str]):
    runs = store()

    async def both() -> str:
        leaver = asyncio.create_task(runs.use(State(text="the cat"), lambda run: run.text))
        stayer = asyncio.create_task(runs.use(State(text="the cat"), lambda run: run.text))
        await asyncio.sleep(0.01)
        leaver.cancel()
        return await stayer

    assert asyncio.run(both()) == "the cat"
    assert count == ["the cat"]


def settle(done: Callable[[], bool]) -> None:
    """Wait for what a run's thread does after its result is out."""
    deadline = time.monotonic() + 5
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)
