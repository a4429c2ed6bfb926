"""GPT-2 small itself: published figures of known sentences, transformers' numbers, and every kind of explanation.

Skipped where its weights are not: see `make test-gpt2`.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from fastapi import FastAPI
from safetensors.torch import load_file
from starlette.testclient import TestClient

from app.main import create_app
from app.parts.attention import Pair, without_root
from app.settings import AppSettings
from model import LanguageModel, Run
from model.address.parser import Address
from tests import gpt2_weights
from tests.app.conftest import TEXT
from tests.app.shown_numbers import Reader, read
from tests.model.models import twin
from tests.model.test_explain import check, places

WEIGHTS = gpt2_weights.find()

pytestmark = pytest.mark.skipif(
    WEIGHTS is None,
    reason="GPT-2's weights are not here: not in the model hub's cache, no directory gpt2 below one of "
    "EVERYNUMBER_MODELS, and EVERYNUMBER_GPT2 names none (make test-gpt2 says how to get them)",
)

RUN = {"model": "gpt2", "text": TEXT, "target": " Mary"}
HEAD = Pair(block=9, head=9, q=14, k=2)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """The app with GPT-2 under its own name, wherever it lies."""
    assert WEIGHTS is not None
    models = tmp_path_factory.mktemp("models")
    (models / "gpt2").mkdir()
    for file in WEIGHTS.iterdir():
        (models / "gpt2" / file.name).symlink_to(file)
    return create_app(AppSettings(models=str(models)))


@pytest.fixture(scope="module")
def client(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def run(app: FastAPI) -> Run:
    return Reader(app).run(RUN)


@pytest.fixture(scope="module")
def gpt2(run: Run) -> LanguageModel:
    return run.model


def token(run: Run, word: str) -> int:
    return run.model.tokenizer.encode(word)[0]


def is_shown(true: float, shown: str) -> bool:
    """The number rounds to what was published."""
    value, half = read(shown)
    return abs(true - value) <= 1.02 * half


# -- the checkpoint


def test_it_is_gpt2_small(gpt2: LanguageModel) -> None:
    c = gpt2.config
    assert (c.n_layer, c.n_head, c.d_model, c.d_mlp, c.d_vocab, c.n_ctx) == (12, 12, 768, 3072, 50257, 1024)
    assert gpt2.n_parameters == 124_439_808
    assert gpt2.tokenizer.encode(" Mary") == [5335] and gpt2.tokenizer.encode(" John") == [1757]


def test_its_attention_is_the_published_one(gpt2: LanguageModel, root: Path) -> None:
    """Number for number that of the file which tests/model/test_real_weights.py reads."""
    file = root.parent / "shared" / "data" / "gpt2_attention_blocks_0_5_9.safetensors"
    if not file.exists():
        pytest.skip("there is no ../shared/data/gpt2_attention_blocks_0_5_9.safetensors beside the checkout")
    state = twin(gpt2.net).transformer.state_dict()
    for name, tensor in load_file(file).items():
        assert torch.equal(state[name], tensor), name


def test_transformers_computes_the_same(run: Run, gpt2: LanguageModel) -> None:
    with torch.no_grad():
        out = twin(gpt2.net)(torch.tensor([run.tokens]), output_hidden_states=True, output_attentions=True)
    for n in range(12):
        stream, expected = run[f"blocks.{n}.resid_pre"], out.hidden_states[n][0].numpy()
        assert np.abs(stream - expected).max() <= 1e-5 * np.abs(expected).max()
        assert np.abs(run[f"blocks.{n}.attn.pattern"] - out.attentions[n][0].numpy()).max() <= 1e-4
    assert np.abs(run["logits"] - out.logits[0].numpy()).max() <= 1e-5 * float(out.logits.abs().max())
    costs = torch.nn.functional.cross_entropy(
        out.logits[0], torch.tensor([*run.tokens[1:], run.target]), reduction="none"
    )
    assert run["loss_per_token"] == pytest.approx(costs.numpy(), rel=1e-4, abs=1e-4)


def test_every_kind_of_number_is_explained(run: Run) -> None:
    """Promise 2 on the real weights: values and slopes, of every site and parameter."""
    for node in run.model.graph:
        for place in places(run.shape(node.name), node.axes[1:] == ("query", "key"), 3):
            check(run, str(Address(node.name, place)))
        if node.name != "tokens":
            check(run, str(Address(node.name, place, "grad")))


# -- published figures of other texts


def test_the_dog(gpt2: LanguageModel) -> None:
    """Greedy from “The dog”, without a start token."""
    going_on = gpt2.generate("ids:464,3290", 18, bos=False, temperature=0)
    published = "373 1043 287 257 2214 1474 262 16246 286 2688 290 2688 27262 13 198 198 464 3290"
    assert [step.token for step in going_on] == [int(n) for n in published.split()]


def test_the_bottle_of_milk(gpt2: LanguageModel) -> None:
    run = gpt2.run("After John and Mary went to the store, John gave a bottle of milk to")
    shown = {" Mary": "70.07 %", " the": "4.67 %", " John": "4.53 %", " them": "4.11 %"}
    assert [v for v, _ in run.top(4)] == [token(run, word) for word in shown]
    for word, percent in shown.items():
        assert is_shown(float(run["probs"][-1, token(run, word)]), percent), word


# -- those of the example sentence


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
    assert is_shown(math.exp(float(run["log_probs"][-1].min())), "3×10⁻¹⁵")


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
