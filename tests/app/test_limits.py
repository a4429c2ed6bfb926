"""What one client may ask, and whom a request counts for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.testclient import TestClient

from app.main import create_app
from app.request.state import State
from app.server.limits import (
    CLIENT,
    Rates,
    TooMany,
    client_of,
)
from app.settings import AppSettings
from app.stores import jobs as jobs_module
from app.stores.jobs import JobStore
from app.stores.learned import Learned, learn
from app.stores.models import ModelStore
from app.stores.runs import RunStore
from model import Run


def made(**settings: object) -> FastAPI:
    return create_app(AppSettings.model_validate({"model": "toy"} | settings))


def client(app: FastAPI, host: str = "203.0.113.7") -> TestClient:
    return TestClient(app, raise_server_exceptions=False, client=(host, 5000))


def test_the_request_after_the_last_is_told_when_to_come_back():
    reader = client(made(rate="3/minute"))
    assert [reader.get("/about").status_code for _ in range(4)] == [200, 200, 200, 429]
    page = reader.get("/about")
    assert 1 <= int(page.headers["Retry-After"]) <= 60
    assert "Too much at once" in page.text and "Try again in" in page.text
    assert "frame-ancestors" in page.headers["Content-Security-Policy"]
    data = reader.get("/api/v1/models")
    assert data.status_code == 429 and data.json()["error"]["code"] == "too_many_requests"
    assert 1 <= int(data.headers["Retry-After"]) <= 60
    part = reader.get("/explore", headers={"HX-Request": "true", "HX-Target": "why"})
    assert part.status_code == 429 and part.headers["HX-Retarget"] == "#notice"


def test_clients_are_counted_apart_and_files_and_health_are_free():
    app = made(rate="2/minute")
    one, other = client(app), client(app, "203.0.113.8")
    assert [one.get("/about").status_code for _ in range(3)] == [200, 200, 429]
    assert other.get("/about").status_code == 200
    for path in ("/static/base.css", "/healthz"):
        assert {one.get(path).status_code for _ in range(5)} == {200}


def test_room_comes_back_with_time():
    reader = client(made(rate="2/second"))
    assert [reader.get("/about").status_code for _ in range(3)][-1] in (200, 429)  # a slow machine may need a second
    import time

    time.sleep(1.1)
    assert reader.get("/about").status_code == 200


def test_new_runs_are_counted_and_known_ones_are_not():
    reader = client(made(rate_costly="2/minute"))
    for text in ("the cat", "the dog"):
        assert reader.get("/api/v1/run", params={"text": text}).status_code == 200
    for _ in range(5):
        assert reader.get("/explore", params={"text": "the cat"}).status_code == 200
    refused = reader.get("/explore", params={"text": "the mat"})
    assert refused.status_code == 429 and refused.headers["Retry-After"]
    assert reader.get("/about").status_code == 200


@pytest.mark.parametrize(
    "ask",
    [
        lambda c, n: c.get("/api/v1/values", params={"text": "the cat", "at": "embed", "format": "npy"}),
        lambda c, n: c.get("/api/v1/explain", params={"text": "the cat", "at": "loss", "format": "csv"}),
        lambda c, n: c.get("/api/v1/generate", params={"text": "the cat", "n": 1 + n}),
        lambda c, n: c.post("/api/v1/jobs", json={"text": "the cat", "steps": 1 + n}),
        lambda c, n: c.post("/learn/cancel"),
    ],
)
def test_files_tokens_and_jobs_are_counted_with_them(ask: Callable[..., object]):
    reader = client(made(rate_costly="4/minute"))
    answers = [ask(reader, n).status_code for n in range(5)]  # type: ignore[attr-defined]
    assert answers[0] < 400 and answers[-1] == 429


def test_one_reader_never_meets_the_usual_rates():
    settings = AppSettings()
    rates = Rates(settings)
    for _ in range(20 * 60):  # twenty requests a second, as from a slider that is dragged all the time
        rates.ask("203.0.113.7")
    for _ in range(5 * 60):
        rates.ask_costly("203.0.113.7")


def test_many_addresses_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.server.limits.MOST_CLIENTS", 100)
    rates = Rates(AppSettings())
    for n in range(1000):
        rates.ask(f"2001:db8:0:{n:x}::/64")
    assert len(rates._memory.events) <= 101


def test_no_rate_is_no_limit():
    reader = client(made(rate="", rate_costly=""))
    assert {reader.get("/about").status_code for _ in range(30)} == {200}


@pytest.mark.parametrize("given", ["often", "10", "10/", "x/minute", "10/minuet"])
def test_a_rate_that_says_nothing_is_refused(given: str):
    with pytest.raises(ValidationError, match="600/minute"):
        AppSettings(rate=given)


@pytest.mark.parametrize(
    ("host", "counts_for"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_whom_a_request_counts_for(host: str, counts_for: str):
    assert client_of({"type": "http", "client": (host, 1)}) == counts_for
    assert client_of({"type": "http", "client": None}) == ""


def statuses(app: FastAPI, *forwarded: str) -> list[int]:
    """One request through the proxies that these X-Forwarded-For headers speak of."""
    proxy = client(app, "10.0.0.1")
    return [proxy.get("/about", headers={"X-Forwarded-For": header}).status_code for header in forwarded]


def test_what_a_client_says_of_itself_counts_for_nothing():
    assert statuses(made(rate="2/minute"), "198.51.100.1", "198.51.100.2", "198.51.100.3")[-1] == 429


def test_behind_one_trusted_proxy_the_last_entry_counts():
    app = made(rate="1/minute", trusted_hops=1)
    assert statuses(app, "198.51.100.1", "198.51.100.2") == [200, 200]
    assert statuses(app, "198.51.100.9, 198.51.100.1", "8.8.8.8, 198.51.100.2") == [429, 429]  # invented in front


def test_behind_two_the_one_before_it_counts():
    app = made(rate="1/minute", trusted_hops=2)
    assert statuses(app, "7.7.7.7, 198.51.100.1, 10.0.0.2", "8.8.8.8, 198.51.100.1, 10.0.0.3") == [200, 429]
    assert statuses(app, "198.51.100.4", "198.51.100.5") == [200, 200]


def test_scheme_and_host_are_the_trusted_proxy_s_word_alone():
    told = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "numbers.example.org", "X-Forwarded-For": "203.0.113.9"}
    redirect = "/explore/"  # the only full address that pages need not show
    trusting = client(made(trusted_hops=1)).get(redirect, headers=told, follow_redirects=False)
    assert trusting.headers["Location"].startswith("https://numbers.example.org/explore")
    wary = client(made()).get(redirect, headers=told, follow_redirects=False)
    assert wary.headers["Location"].startswith("http://testserver/explore")
    bad = told | {"X-Forwarded-Host": 'x"><script>', "X-Forwarded-Proto": "javascript"}
    found = client(made(trusted_hops=1)).get(redirect, headers=bad, follow_redirects=False)
    assert found.headers["Location"].startswith("http://testserver/explore")


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs that go on until the test ends."""
    end = threading.Event()

    def waiting(run: Run, steps: int, advance: Callable[[float], None]) -> Learned:
        while not end.wait(0.005):
            advance(1.0)
        return learn(run, steps, advance)

    monkeypatch.setattr(jobs_module, "learn", waiting)
    yield
    end.set()


@pytest.mark.usefixtures("held_back")
def test_one_client_cannot_fill_the_queue_of_jobs():
    app = made(job_queue=8, jobs_per_client=2)
    one, other = client(app), client(app, "203.0.113.8")

    def start(reader: TestClient, steps: int) -> int:
        return reader.post("/api/v1/jobs", json={"text": "the cat", "steps": steps}).status_code

    assert [start(one, steps) for steps in (1, 2, 3)] == [202, 202, 429]
    assert start(one, 1) == 202  # the same job again is none more
    assert start(other, 3) == 202
    assert one.get("/learn?text=the%20cat&steps=4&go=1").status_code == 429
    app.state.services.close()


@pytest.mark.usefixtures("held_back")
def test_jobs_that_nobody_asked_for_by_request_are_not_counted():
    settings = AppSettings(model="toy", jobs_per_client=1)
    jobs = JobStore(RunStore(ModelStore(settings), settings), settings)
    for steps in (1, 2, 3):
        jobs.start(State(model="toy", text="the cat", steps=steps))
    token = CLIENT.set("203.0.113.7")
    jobs.start(State(model="toy", text="the cat", steps=4))
    with pytest.raises(TooMany):
        jobs.start(State(model="toy", text="the cat", steps=5))
    CLIENT.reset(token)
    jobs.close()


def test_a_text_longer_than_allowed_is_refused_wherever_it_stands():
    reader = client(made(max_text=12))
    for path in ("/explore", "/learn", "/generate", "/api/v1/run", "/embed/mask", "/lessons/math", "/whatif"):
        assert reader.get(path, params={"text": "the cat sat"}).status_code in (200, 303), path
        refused = reader.get(path, params={"text": "the cat sat on the"})
        assert refused.status_code == 400 and "18 characters" in refused.text, path
    body = reader.post("/api/v1/jobs", json={"text": "the cat sat on the"})
    assert body.status_code == 400 and body.json()["error"]["code"] == "text_too_long"


def test_a_text_that_is_refused_keeps_its_form():
    reader = client(made(rate_costly="1/minute"))
    assert reader.get("/generate", params={"text": "the cat", "n": "1"}).status_code == 200
    refused = reader.get("/generate", params={"text": "the <b> mat", "n": "1", "seed": "12", "stop": "!"})
    assert refused.status_code == 429 and refused.headers["Retry-After"]
    page = BeautifulSoup(refused.text, "html.parser")
    fields = {str(field["name"]): field.get("value") for field in page.select("#ask [name]")}
    assert (fields["seed"], fields["stop"], fields["n"]) == ("12", "!", "1")
    assert "the <b> mat" in page.select("#ask textarea")[0].text and page.select("main .fault")
