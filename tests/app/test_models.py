"""Several models within a memory budget, pages that wait for one, and the page of models."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

import app.panels.loading
import app.stores.models
from app.main import create_app
from app.request.state import State
from app.settings import AppSettings
from app.stores.budgeted import Busy
from app.stores.models import ModelStore, TooLarge
from model import LanguageModel
from model.errors import CheckpointError
from model.runtime.device import Device
from model.weights import hub
from model.weights.checkpoints import WEIGHTS
from tests.app.conftest import save_checkpoint, until
from tests.model.models import error_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints of one shape, `a`, `b` and `c`."""
    directory = tmp_path_factory.mktemp("models")
    for name in "abc":
        save_checkpoint(directory / name)
    return directory


@pytest.fixture
def own_directory(tmp_path: Path) -> Path:
    """The same for one test alone: no other test's server has these files in its memory."""
    for name in "abc":
        save_checkpoint(tmp_path / name)
    return tmp_path


@pytest.fixture
def store(directory: Path) -> ModelStore:
    return ModelStore(AppSettings(models=str(directory)))


def room_for(store: ModelStore, n: int) -> None:
    """Memory for so many of the three models."""
    store.loaded.budget = n * store.entry("a").memory + 1000


def is_mapped(path: Path) -> bool:
    """Whether the process has this file in its memory."""
    return str(path.resolve()) in Path("/proc/self/maps").read_text()


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Loading waits for an event after a quarter of it; `begun` lists what was loaded."""

    real, state = app.stores.models.load, SimpleNamespace(go_on=threading.Event(), begun=[])

    def load(source: str | Path, *, called: str, advance: Callable[[float], None], device: Device) -> LanguageModel:
        state.begun.append(called)
        advance(0.25)
        assert state.go_on.wait(30)
        return real(source, called=called, advance=advance, device=device)

    monkeypatch.setattr(app.stores.models, "load", load)
    yield state
    state.go_on.set()


# -- one load


def test_ten_first_requests_make_one_load(store: ModelStore, held_up: Any) -> None:
    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(store.get, "a") for _ in range(10)]
        until(lambda: held_up.begun)
        time.sleep(0.05)
        assert not any(one.done() for one in asked)
        loading = store.loading("a")
        assert loading is not None and loading.share == 0.25
        held_up.go_on.set()
        assert len({id(one.result()) for one in asked}) == 1
    assert held_up.begun == ["a"] and store.is_loaded("a") and store.loading("a") is None


def test_ten_first_requests_for_pages_and_numbers_make_one_load(directory: Path, held_up: Any) -> None:
    client = TestClient(create_app(AppSettings(models=str(directory))))
    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(client.get, "/api/v1/run", params={"model": "a", "text": f"The {n}"}) for n in range(10)]
        until(lambda: held_up.begun)
        held_up.go_on.set()
        assert {one.result().status_code for one in asked} == {200}
    assert held_up.begun == ["a"]


def test_a_failed_load_is_told_to_all_and_tried_again(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "x") / WEIGHTS
    store = ModelStore(AppSettings(models=str(tmp_path)))
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    with ThreadPoolExecutor(4) as pool:
        faults = [pool.submit(store.get, "x").exception() for _ in range(4)]
    assert all(isinstance(fault, CheckpointError) and "safetensors" in fault.message for fault in faults)
    path.write_bytes(whole)
    assert store.get("x").name == "x"


# -- the budget


def test_the_least_recently_used_is_unloaded(own_directory: Path) -> None:
    directory, store = own_directory, ModelStore(AppSettings(models=str(own_directory)))
    room_for(store, 2)
    for name in "aba":
        store.get(name)
    assert store.loaded.nbytes == 2 * store.entry("a").memory and is_mapped(directory / "b" / WEIGHTS)
    store.get("c")
    assert [name for name in "abc" if store.is_loaded(name)] == ["a", "c"]
    until(lambda: not is_mapped(directory / "b" / WEIGHTS))  # its memory is given back
    assert is_mapped(directory / "a" / WEIGHTS) and is_mapped(directory / "c" / WEIGHTS)


def test_what_held_the_unloaded_model_lets_go_and_is_made_again(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = own_directory
    monkeypatch.setattr(app.panels.loading, "PATIENCE", 30.0)
    made_app = create_app(AppSettings(models=str(directory)))
    client, services = TestClient(made_app), made_app.state.services
    room_for(services.models, 1)
    explore = "/explore?model=a&text=The+dog&at=logits[1,5]"
    generated = "/api/v1/generate?model=a&text=The+dog&n=3"
    before, made = client.get(explore).text, client.get(generated).json()["text"]
    assert is_mapped(directory / "a" / WEIGHTS) and len(services.runs.kept) == 1 and len(services.generations.kept) == 1
    assert client.get("/api/v1/run?model=b&text=The+dog").status_code == 200
    until(lambda: not is_mapped(directory / "a" / WEIGHTS))  # its memory is given back
    assert len(services.runs.kept) == 1 and len(services.generations.kept) == 0
    assert client.get(explore).text == before
    assert client.get(generated).json()["text"] == made


def test_nothing_of_an_unloaded_model_stays(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages, numbers, texts and cards of it were asked for; then another model took its room."""
    monkeypatch.setattr(app.panels.loading, "PATIENCE", 30.0)
    made = create_app(AppSettings(models=str(directory)))
    client, models = TestClient(made), made.state.services.models
    room_for(models, 1)
    for path in (
        "explore?at=blocks.0.attn.pattern[0,2,1]", "explore?at=calc(logits[1,5]-logits[1,6])", "learn?steps=2",
        "generate?n=3", "api/v1/heads?", "api/v1/generate?n=3", "lessons/math?", "embed/heads?",
        "card.png?at=logits[1,5]&width=300",
        "export/why.html?at=logits[1,5]", "whatif?set=blocks.0.attn.z[:,0,:]=0&at=loss", "about/heads?",
    ):  # fmt: skip
        assert client.get(f"/{path}&model=a&text=The+dog").status_code == 200, path
    until(lambda: not made.state.services.jobs.unfinished)
    model = models.get("a")
    refs = [weakref.ref(model), weakref.ref(model.tokenizer), weakref.ref(model.net)]
    del model
    assert client.get("/api/v1/run?model=b&text=The+dog").status_code == 200
    gc.collect()
    until(lambda: all(ref() is None for ref in refs))


def test_a_model_in_use_is_not_unloaded(store: ModelStore) -> None:
    room_for(store, 1)
    with ThreadPoolExecutor(1) as pool:
        with store.in_use("a"):
            store.get("a")
            waiting = pool.submit(store.get, "b")
            time.sleep(0.1)
            assert not waiting.done() and store.is_loaded("a")
            with store.in_use("a"):
                pass
            time.sleep(0.05)
            assert not waiting.done(), "two used it, and one still does"
        assert waiting.result(timeout=10).name == "b" and not store.is_loaded("a")


def test_where_no_memory_is_given_back_the_reader_is_told_to_come_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.stores.models, "ROOM", 0.1)
    made = create_app(AppSettings(models=str(directory)))
    services = made.state.services
    room_for(services.models, 1)
    with services.models.in_use("a"):
        services.models.get("a")
        error_of(Busy, services.models.get, "b")
        answer = TestClient(made).get("/api/v1/run?model=b&text=The")
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
        assert "memory for models" in answer.json()["error"]["message"]
        assert TestClient(made).get("/explore?model=b&text=The").status_code == 503
        assert TestClient(made).get("/api/v1/run?model=a&text=The").status_code == 200, "the one in use goes on"
    assert TestClient(made).get("/api/v1/run?model=b&text=The").status_code == 200


def test_a_model_being_used_by_a_run_is_in_use(directory: Path) -> None:
    services = create_app(AppSettings(models=str(directory))).state.services

    def look(run: Any) -> int:
        return int(services.models.loaded._users["a"])

    assert services.runs.use_here(State(model="a", text="The"), look) == 1
    assert services.models.loaded._users["a"] == 0


def test_two_that_fit_only_one_after_the_other_both_load(store: ModelStore) -> None:
    room_for(store, 1)
    with ThreadPoolExecutor(6) as pool:
        assert [model.name for model in pool.map(store.get, "abcabc")] == list("abcabc")
    assert store.loaded.nbytes <= store.loaded.budget


def test_a_model_larger_than_the_budget_is_refused_by_name_of_the_setting(directory: Path) -> None:
    made = create_app(AppSettings(models=str(directory)))
    made.state.services.models.loaded.budget = 1000
    error = error_of(TooLarge, made.state.services.models.get, "a")
    assert "1 kB" in error.message and "EVERYNUMBER_MODEL_MEMORY_MB" in error.hint
    client = TestClient(made)
    answer = client.get("/api/v1/run?model=a&text=The")
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "model_too_large"
    card = BeautifulSoup(client.get("/models").text, "lxml").select_one("#model-a")
    assert card is not None and "too large for this server" in card.text and not card.select("a")


def test_the_budget_follows_the_setting_or_the_machine() -> None:
    assert ModelStore(AppSettings(model_memory_mb=7)).loaded.budget == 7 * 2**20
    assert 2**27 < ModelStore(AppSettings()).loaded.budget < 2**45


# -- while it loads


def test_a_page_shows_the_loading_and_the_api_waits(
    directory: Path, held_up: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.panels.loading, "PATIENCE", 0.05)
    client = TestClient(create_app(AppSettings(models=str(directory))))
    url = "/explore?model=a&text=The+dog"
    with ThreadPoolExecutor(4) as pool:
        numbers = pool.submit(client.get, "/api/v1/run", params={"model": "a", "text": "The dog"})
        embedded = pool.submit(client.get, "/embed/predictions", params={"model": "a", "text": "The dog"})
        file = pool.submit(client.get, "/export/values.csv", params={"model": "a", "text": "The dog", "at": "loss"})
        part = pool.submit(client.get, url, headers={"HX-Request": "true", "HX-Target": "why"})
        until(lambda: held_up.begun)
        waiting = client.get(url)
        assert waiting.status_code == 202 and int(waiting.headers["Retry-After"]) > 0
        assert waiting.headers["Cache-Control"] == "no-store"
        page = BeautifulSoup(waiting.text, "lxml")
        assert page.h1 is not None and page.h1.text == "Loading a"
        bar = page.select_one("progress")
        assert bar is not None and bar["value"] == "25"
        assert page.select_one("noscript meta[http-equiv=refresh]") is not None
        asks = page.select_one("#loading")
        assert asks is not None and asks["data-hx-get"] == "/models/a/loading"
        progress = client.get("/models/a/loading", headers={"HX-Request": "true"})
        assert "HX-Refresh" not in progress.headers and 'value="25"' in progress.text
        assert not any(one.done() for one in (numbers, part, embedded, file))
        held_up.go_on.set()
        assert embedded.result().status_code == 200 and file.result().status_code == 200
        assert numbers.result().status_code == 200 and part.result().status_code == 200
    assert client.get("/models/a/loading", headers={"HX-Request": "true"}).headers["HX-Refresh"] == "true"
    assert client.get(url).status_code == 200
    assert held_up.begun == ["a"]


def test_a_page_of_another_model_does_not_wait(directory: Path, held_up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.panels.loading, "PATIENCE", 0.05)
    made = create_app(AppSettings(models=str(directory), run_threads=1))
    held_up.go_on.set()
    client = TestClient(made)
    assert client.get("/explore?model=toy&text=the+cat").status_code == 200
    held_up.go_on.clear()
    assert client.get("/explore?model=a&text=The").status_code == 202
    with ThreadPoolExecutor(3) as pool:  # more than there are threads for runs
        waiting = [pool.submit(client.get, "/api/v1/run", params={"model": "a", "text": f"{n}"}) for n in range(3)]
        time.sleep(0.1)
        assert client.get("/api/v1/run?model=toy&text=the").status_code == 200
        held_up.go_on.set()
        assert all(one.result().status_code == 200 for one in waiting)


def test_a_model_that_cannot_be_loaded_is_an_error_page(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "x")
    client = TestClient(create_app(AppSettings(models=str(tmp_path))), raise_server_exceptions=False)
    (tmp_path / "x" / WEIGHTS).write_bytes(b"half")
    answer = client.get("/explore?model=x&text=The")
    assert answer.status_code == 500 and "model.safetensors" in answer.text
    assert client.get("/explore?text=The").status_code == 200


# -- finding them


def test_the_menu_says_what_each_takes_and_which_are_loaded(directory: Path) -> None:
    made = create_app(AppSettings(models=str(directory)))
    client = TestClient(made)
    made.state.services.models.get("b")
    page = BeautifulSoup(client.get("/explore?text=The").text, "lxml")
    lines = {str(link.text.split()[0]): link.text for link in page.select("#models li a")}
    entry = made.state.services.models.entry("a")
    assert f"{entry.n_parameters:,} weights, {hub.megabytes(entry.memory)}" in lines["a"]
    assert lines["b"].endswith("loaded") and not lines["a"].endswith("loaded")


def test_a_directory_named_gpt2_is_gpt2(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "gpt2")
    store = ModelStore(AppSettings(model="gpt2", models=str(tmp_path)))
    assert store.default == "gpt2" and store.entry("").directory == tmp_path / "gpt2"
    assert "gpt2" not in [one.name for one in store.offers] and "gpt2-xl" in [one.name for one in store.offers]


def test_the_api_says_what_each_takes(directory: Path) -> None:
    made = create_app(AppSettings(models=str(directory)))
    made.state.services.models.get("a")
    cards = {card["name"]: card for card in TestClient(made).get("/api/v1/models").json()["models"]}
    assert cards["a"]["memory"] == sum(4 * p.numel() for p in made.state.services.models.get("a").net.parameters())
    assert cards["a"]["on_disk"] == (directory / "a" / WEIGHTS).stat().st_size and cards["toy"]["on_disk"] == 0
    assert (cards["a"]["is_loaded"], cards["b"]["is_loaded"]) == (True, False)


def test_a_large_model_beside_a_small_default_has_all_cores(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, seen = torch.get_num_threads(), dict[str, int]()
    monkeypatch.setattr("app.server.process.is_large", lambda n: n > 10_000)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    services = create_app(AppSettings(model="toy", models=str(directory), run_threads=1)).state.services
    for name, text in (("toy", "the"), ("a", "The"), ("toy", "the cat"), ("a", "The dog")):
        services.runs.use_here(
            State(model=name, text=text), lambda run: seen.update({run.text: torch.get_num_threads()})
        )
    assert seen == {"the": 1, "The": 3, "the cat": 1, "The dog": 3}
    torch.set_num_threads(threads)


def test_a_tokenizer_is_had_without_the_weights(store: ModelStore) -> None:
    ids = [store.tokenizer(name).encode("the cat") for name in ("a", "toy")]
    assert not store.is_loaded("a") and not store.is_loaded("toy")
    assert ids == [store.get(name).tokenizer.encode("the cat") for name in ("a", "toy")]
    assert store.tokenizer("a") is store.get("a").tokenizer
