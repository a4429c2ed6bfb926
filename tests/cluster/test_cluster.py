"""The app on Ray Serve, in processes of its own: every replica shows the same, models and jobs are found again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from bs4 import BeautifulSoup
from fastapi.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings

pytest.importorskip("ray", reason="the scale extra (Ray) is not installed")

ROOT = Path(__file__).parents[2]
TEXT = "Tom saw Lily"
TRIES = 60


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Two replicas for pages and one that learns, all on this machine."""
    log = tmp_path_factory.mktemp("cluster") / "log"
    address = f"http://127.0.0.1:{(port := free_port())}"
    given = {
        "EVERYNUMBER_PORT": str(port), "EVERYNUMBER_CLUSTER_PAGES_MIN": "2", "EVERYNUMBER_CLUSTER_PAGES_MAX": "2",
        "EVERYNUMBER_CLUSTER_CPUS": "0.1", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "app.cluster"], cwd=ROOT, env=os.environ | given, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        with httpx.Client(base_url=address, timeout=60, headers={"Connection": "close"}) as client:
            until = time.monotonic() + 200
            while "Every Number: http" not in log.read_text("utf-8", "replace"):
                assert server.poll() is None and time.monotonic() < until, log.read_text("utf-8", "replace")[-3000:]
                time.sleep(0.2)
            yield client
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def single(cluster: httpx.Client) -> Iterator[TestClient]:
    """The same app in one process, asked under the same name."""
    with TestClient(create_app(AppSettings()), base_url=str(cluster.base_url)) as client:
        yield client


def of_another(cluster: httpx.Client, url: str, before: str) -> httpx.Response:
    """The answer of a replica other than `before`; replicas are chosen by chance and load."""
    for _ in range(TRIES):
        answer = cluster.get(url)
        assert answer.status_code == 200
        if answer.headers["x-replica"] != before:
            return answer
    raise AssertionError(f"{TRIES} answers in a row came from {before}")


def test_a_walk_whose_every_click_lands_on_another_replica(cluster: httpx.Client, single: TestClient):
    url, before, seen = f"/explore?text={TEXT.replace(' ', '%20')}&at=logits[3,17]", "", Counter()
    for _ in range(8):
        answer = of_another(cluster, url, before)
        before = answer.headers["x-replica"]
        seen[before] += 1
        assert answer.text == single.get(url).text  # every number, every link
        factors = BeautifulSoup(answer.text, "lxml").select("#why a[href*='trail=']")
        url = next(str(a["href"]) for a in factors if "logits" not in re.findall(r"at=([^&]*)", str(a["href"]))[0])
    assert sorted(seen.values()) == [4, 4]


def test_another_model_is_asked_of_the_replica_that_holds_it(cluster: httpx.Client):
    first = cluster.get("/api/v1/run?model=toy&text=the").headers["x-replica"]
    time.sleep(3)  # until all know who holds it
    assert {cluster.get("/api/v1/run?model=toy&text=the").headers["x-replica"] for _ in range(12)} == {first}


def test_jobs_run_on_replicas_of_their_own_and_are_found_again(cluster: httpx.Client, single: TestClient):
    pages = {cluster.get("/healthz").headers["x-replica"] for _ in range(20)}
    asked = {"text": TEXT, "steps": 2, "eta": 0.01}
    started = cluster.post("/api/v1/jobs", json=asked)
    assert started.headers["x-replica"] not in pages
    with cluster.stream("GET", f"/api/v1/jobs/{started.json()['id']}/events") as events:
        assert "event: done" in events.read().decode()
    done = cluster.get(f"/api/v1/jobs/{started.json()['id']}").json()
    alone = single.post("/api/v1/jobs", json=asked).json()
    while (state := single.get(f"/api/v1/jobs/{alone['id']}").json())["state"] != "done":
        time.sleep(0.05)
    assert done["result"]["losses"] == pytest.approx(state["result"]["losses"], rel=1e-5)


def test_a_replica_that_ends_is_replaced_and_nobody_notices(cluster: httpx.Client, single: TestClient):
    victim = cluster.get("/healthz").headers["x-replica"]
    os.kill(int(victim.rsplit("-", 1)[1]), signal.SIGKILL)
    url = "/api/v1/explain?text=Tom&at=logits[1,3]"
    expected, names = single.get(url).json(), set()
    until = time.monotonic() + 90
    while len(names - {victim}) < 2 and time.monotonic() < until:
        answer = cluster.get(url)
        assert answer.status_code == 200 and answer.json() == expected
        names.add(answer.headers["x-replica"])
        time.sleep(0.1)
    assert len(names - {victim}) == 2  # the one that stayed and a new one
