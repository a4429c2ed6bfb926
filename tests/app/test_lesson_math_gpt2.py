"""The second lesson on GPT-2 small: published figures of the example sentence. Skipped where it is not there."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.live.math_aim import Pair, without_root
from app.main import create_app
from app.settings import Settings
from model import Run
from tests.app.conftest import TEXT
from tests.app.shown_numbers import Reader, read

WEIGHTS = os.environ.get("EVERYNUMBER_GPT2", "")

pytestmark = pytest.mark.skipif(
    not WEIGHTS,
    reason="GPT-2's weights are not here: set EVERYNUMBER_GPT2 to a directory that holds the checkpoint, "
    "or put it as gpt2 below a directory of EVERYNUMBER_MODELS",
)

RUN = {"model": "gpt2", "text": TEXT, "target": " Mary"}
HEAD = Pair(block=9, head=9, q=14, k=2)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """The app with GPT-2 under its own name, wherever it lies."""
    models = tmp_path_factory.mktemp("models")
    (models / "gpt2").mkdir()
    for file in Path(WEIGHTS).resolve().iterdir():
        (models / "gpt2" / file.name).symlink_to(file)
    return create_app(Settings(models=str(models)))


@pytest.fixture(scope="module")
def client(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def run(app: FastAPI) -> Run:
    return Reader(app).run(RUN)


def token(run: Run, word: str) -> int:
    return run.model.tokenizer.encode(word)[0]


def is_shown(true: float, shown: str) -> bool:
    """The number rounds to what was published."""
    value, half = read(shown)
    return abs(true - value) <= 1.02 * half


def test_the_head_that_finds_the_receiver(run: Run) -> None:
    assert is_shown(float(run.values(HEAD.dot)), "49.4")
    assert is_shown(float(run.values(HEAD.at("qk", 0))), "39.0")
    assert is_shown(float(run.values(f"calc({without_root(HEAD.row, HEAD.dot)})")), "99.997 %")
    for key, shown in ((2, "67 %"), (0, "18 %"), (4, "13 %")):
        assert is_shown(float(run.values(HEAD.at("pattern", key))), shown)


def test_scores_and_probabilities(run: Run) -> None:
    z, p = run["logits"][-1].astype(np.float64), run["probs"][-1].astype(np.float64)
    mary, them, the, john = (token(run, word) for word in (" Mary", " them", " the", " John"))
    assert is_shown(float(z[mary]), "-74.8") and abs(np.median(z) + 93) < 4
    for word, shown in ((mary, "67.7 %"), (them, "12.8 %"), (the, "4.8 %"), (john, "2.3 %")):
        assert is_shown(float(p[word]), shown)
    assert is_shown(float(z[mary] - z[them]), "1.66") and is_shown(math.exp(z[mary] - z[them]), "5.3")
    assert 1e-15 < math.exp(float(run["log_probs"][-1].min())) < 9e-15


def test_surprises_and_costs(run: Run) -> None:
    costs = run["loss_per_token"][:-1].astype(np.float64)
    assert len(costs) == 14
    assert is_shown(math.exp(-costs.sum()), "2.8×10⁻²⁴") and is_shown(costs.sum(), "54.2")
    for position, p, cost in ((2, "0.0003", "8.1"), (13, "0.0005", "7.6")):
        assert is_shown(math.exp(-costs[position - 1]), p) and is_shown(costs[position - 1], cost)
    assert is_shown(float(run.values("loss")), "0.39")
    assert is_shown(-float(run["log_probs"][-1, token(run, " John")]), "3.75")


def test_slopes(run: Run) -> None:
    for word, shown in ((" Mary", "-0.323"), (" them", "0.128"), (" the", "0.048"), (" John", "0.023")):
        assert is_shown(float(run.values(f"logits[14,{token(run, word)}].grad")), shown)


def test_one_step_and_ten(run: Run) -> None:
    mary = f"probs[14,{token(run, ' Mary')}]"
    assert run.rate.eta == 2e-5
    for k, loss, p in ((1, "0.30", "74.3 %"), (10, "0.09", "91.5 %")):
        assert is_shown(float(run.values(f"loss.step({k})")), loss)
        assert is_shown(float(run.values(f"{mary}.step({k})")), p)
    lost = run["probs"][-1].astype(np.float64) - run["probs.step(10)"][-1]
    assert int(lost.argmax()) == token(run, " them")


def test_the_pages_show_them(app: FastAPI, client: TestClient) -> None:
    """The same figures where a reader meets them, each number being what its address says."""
    reader = Reader(app)
    for path, query, says in (
        ("/lessons/math", {}, ["2.8", "10⁻²⁴", "54.2", "0.39", "−0.323", "+0.128", "1.66"]),
        ("/embed/math_dot", {"block": "9", "head": "9", "key": "2"}, ["49.4"]),
        ("/embed/math_divide", {"block": "9", "head": "9"}, ["99.99", "39.0"]),
        ("/embed/math_cost", {"answer": " John"}, ["0.39", "3.75"]),
    ):
        answer = client.get(path, params=RUN | query)
        assert answer.status_code == 200 and reader.faults(answer.text) == []
        text = BeautifulSoup(answer.text, "lxml").get_text()
        assert all(one in text for one in says), [one for one in says if one not in text]


def test_ten_steps_are_shown_when_asked_for(client: TestClient) -> None:
    asked = RUN | {"go": "1"}
    for _ in range(240):
        text = client.get("/embed/math_learn", params=asked).text
        if "<progress" not in text:
            break
        time.sleep(0.5)
    words = BeautifulSoup(text, "lxml").get_text()
    assert "74.3 %" in words and "91.5 %" in words and "them lost the most" in " ".join(words.split())
