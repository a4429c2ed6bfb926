"""The page of learning: its numbers are the model's, its words are measured, its state is its URL."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.features.learn.weights import steepest, weights_view
from app.main import create_app
from app.panels.learning.view import learn_view
from app.panels.slopes import SlopeTints, slope_sizes
from app.render.curves import LogAxis
from app.request.state import State
from app.settings import AppSettings
from app.stores.learned import learn
from model import LanguageModel, Run, load
from model.address.parser import parse
from model.ops.update import Rate
from tests.app.conftest import TEXT


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load("embedded")


@pytest.fixture(scope="module")
def run(model: LanguageModel) -> Run:
    return model.run(TEXT, " John")


def finished(client: TestClient, url: str) -> BeautifulSoup:
    """The page once its job is done."""
    deadline = time.monotonic() + 60
    while True:
        answer = client.get(url)
        assert answer.status_code == 200, answer.text
        page = BeautifulSoup(answer.text, "lxml")
        if page.select_one(".verdict"):
            return page
        assert page.select_one("noscript meta[http-equiv=refresh]") or page.select_one(".job a.button")
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_at_the_usual_rate_one_step_lowers_the_loss_and_ten_teach_the_sentence(model: LanguageModel):
    run = model.run(TEXT)
    found = learn(run, 10)
    assert found.losses[1] < found.losses[0]
    assert found.probabilities[10][0] > 0.9
    assert found.tokens[0] == run.target


def test_the_result_is_what_the_model_says(run: Run):
    found = learn(run, 3)
    runs = run.learning.runs
    assert found.losses == tuple(float(r.tensor("loss")) for r in runs[:4])
    for j, row in enumerate(found.probabilities):
        assert row == tuple(float(runs[j].tensor("probs")[-1, v]) for v in found.tokens)
    middle = len(found.etas) // 2
    assert found.etas[middle] == 0 and found.curve[middle] == pytest.approx(found.losses[0], rel=1e-6)
    chosen = found.etas.index(found.rate.eta)
    assert found.curve[chosen] == pytest.approx(found.losses[1], rel=1e-5)
    secant = (found.curve[middle - 1] - found.curve[middle + 1]) / (found.etas[middle + 1] - found.etas[middle - 1])
    assert secant == pytest.approx(found.steepness, rel=0.02)
    for name in ("W_E", "blocks.2.attn.W_O", "blocks.1.mlp.b_in"):
        start = run[name]
        one, every = (float(((run[f"{name}.step({k})"] - start) ** 2).sum() ** 0.5) for k in (1, 3))
        assert found.moved[name] == pytest.approx((one, every), rel=1e-4)
    changes = {c.token: c.after - c.before for c in found.changes}
    assert max(changes, key=lambda v: changes[v]) == run.target


def test_every_number_of_the_page_has_an_address_that_gives_it(client: TestClient, run: Run):
    url = State(text=TEXT, target=" John", steps=2).url("/learn")
    page = finished(client, url)
    links = [a["href"] for a in page.select(".results a.num[href*='/explore']")]
    buttons = [(b["value"], b.text) for b in page.select(".results button[form=go]")]
    assert len(links) > 20 and len(buttons) > 40
    fields = {i["name"]: i["value"] for i in page.select("#go input")}
    for at, shown in buttons:
        value = client.get("/api/v1/values", params=fields | {"at": unescape(at)})
        assert value.status_code == 200, at
        number = value.json()["values"]
        if re.fullmatch(r"[−+]?\d+\.\d{3,}", shown):
            assert float(shown.replace("−", "-")) == pytest.approx(number, abs=6 * 10.0 ** -len(shown.split(".")[1]))
    for link in links[::4]:
        assert client.get(link.replace("/explore", "/api/v1/explain")).status_code == 200, link


def test_the_weights_of_the_page_are_the_models(run: Run):
    state = State(text=TEXT, target=" John", steps=2, at="blocks.1.mlp.W_in[3,5]")
    top = steepest(run, "blocks.1.mlp.W_in")
    slopes = abs(run["blocks.1.mlp.W_in.grad"])
    assert [float(slopes[place.index]) for place in top] == sorted(slopes.ravel().tolist(), reverse=True)[:10]
    view = weights_view(run, state)
    assert str(view["here"]) == state.at and [at for at, _ in view["rows"]] == [view["here"], *top]
    assert weights_view(run, State(text=TEXT, at="W_U[3,5]"))["here"] == parse("W_E[5,3]")
    assert weights_view(run, State(text=TEXT, at="loss"))["here"].site == "blocks.3.mlp.W_out"


def test_slopes_of_all_sites(run: Run):
    sizes = slope_sizes(run)
    assert sizes["loss"] == 1.0 and "tokens" not in sizes
    assert sizes["blocks.1.resid_pre"] == pytest.approx(float((run["blocks.1.resid_pre.grad"] ** 2).sum() ** 0.5))


def test_the_map_of_slopes_is_tinted_by_their_length(client: TestClient, run: Run):
    tints, sizes = SlopeTints.of(run), slope_sizes(run)
    seen = sorted((sizes[name], tints.site(name)) for name in sizes if sizes[name] > 0)
    assert [step for _, step in seen] == sorted(step for _, step in seen)
    assert seen[-1][1] == 8 and tints is SlopeTints.of(run)
    state = State(text=TEXT, target=" John", at="blocks.1.attn.z[14,2,3].grad")
    page = BeautifulSoup(client.get(state.url()).text, "lxml")
    site = next(a for a in page.select("#map .site") if a.text == "resid_mid")
    assert f"pos-{tints.site('blocks.1.resid_mid')}" in site["class"]
    plain = BeautifulSoup(client.get(state.select("blocks.1.attn.z[14,2,3]").url()).text, "lxml")
    assert not plain.select("#map .site[class*=pos-]")


def test_a_step_that_raises_the_loss_is_said_to(model: LanguageModel):
    state = State(text=TEXT, target=" John", eta=0.01, steps=2)
    run = model.run(TEXT, " John").at_rate(Rate(0.01))
    found = learn(run, 2)
    view = learn_view(run, state, found)
    word = "raises" if found.losses[1] > found.losses[0] else "lowers"
    assert f"One step {word} the loss" in view["verdict"]


@pytest.mark.parametrize(
    "query",
    [
        {"optimizer": "adamw", "steps": 2},
        {"eta": 1000, "steps": 2},
        {"eta": 0, "steps": 1},
        {"target": "sequence", "steps": 2},
        {"model": "toy", "steps": 50},
        {"at": "W_E[5]", "steps": 1},
        {"text": "x" * 60, "steps": 1},
    ],
)
def test_the_page_stands_whatever_is_asked(client: TestClient, query: dict[str, str | int]):
    url = str(client.build_request("GET", "/learn", params={k: str(v) for k, v in query.items()}).url)
    page = finished(client, url)
    assert len(page.select("section h2")) == 8
    assert len(str(page)) < 130_000


@pytest.mark.parametrize(
    ("query", "part"),
    [("eta=-1", "eta"), ("eta=x", "eta"), ("steps=51", "steps"), ("optimizer=adam", "optimizer"), ("at=nothing", "at")],
)
def test_errors_name_the_part_and_keep_the_input(client: TestClient, query: str, part: str):
    answer = client.get(f"/learn?text=the%20dog&{query}")
    page = BeautifulSoup(answer.text, "lxml")
    assert answer.status_code in (400, 404)
    assert page.select_one("#fault") and page.select_one("textarea").text.strip() == "the dog"
    if part != "at":
        name, _, value = query.partition("=")
        field = page.select_one(f"form[action='/learn'] [name={name}]")
        assert field["aria-invalid"] == "true"
        assert field.name == "select" or field["value"] == value


def test_numbers_set_are_left_out_of_learning_and_said_so(client: TestClient):
    page = finished(client, State(text=TEXT, steps=1, changes=("embed[2,0]=3",)).url("/learn"))
    assert "left out" in page.select_one(".set-note").text


def test_a_reload_after_a_restart_shows_the_same():
    url = State(model="toy", text="the cat sat on the", steps=4).url("/learn")
    first, second = (finished(TestClient(create_app(AppSettings(model="toy"))), url) for _ in range(2))
    assert first.select_one("#results").decode() == second.select_one("#results").decode()


def test_a_stopped_page_offers_to_begin_again(app: FastAPI, client: TestClient):
    url = State(text=TEXT, steps=5, eta=0.00077)
    answer = client.post("/learn/cancel?" + url.query(), follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"].endswith("&go=0")
    page = BeautifulSoup(client.get(answer.headers["location"]).text, "lxml")
    assert page.select_one(".job a.button")["href"].endswith("&go=1")
    assert not page.select_one("noscript meta[http-equiv=refresh]")


def test_a_large_model_begins_only_when_told_to(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.server.process.LARGE", 1000)
    state = State(text=TEXT, steps=1, eta=0.000123)
    page = BeautifulSoup(client.get(state.url("/learn")).text, "lxml")
    assert "weights" in page.select_one(".job").text and not page.select_one(".verdict")
    assert finished(client, page.select_one(".job a.button")["href"]).select_one(".verdict")


def test_explanations_find_the_steps_that_a_job_took(app: FastAPI, client: TestClient):
    state = State(text=TEXT, steps=4, eta=0.0004)
    finished(client, state.url("/learn"))
    runs = app.state.services.runs
    key = runs.key(state)
    view = runs.kept.get(key).with_steps((0.0004, "sgd"))
    before = list(view.learning.runs)
    assert len(before) == 5
    assert client.get(state.select("loss.step(4)").api("explain")).status_code == 200
    assert list(view.learning.runs) == before


def test_a_log_axis_holds_its_sizes():
    axis = LogAxis.over([0.0003, 2.0, 0.0])
    assert (axis.low, axis.high) == (-4, 1) and axis.share(0) == 0
    assert axis.share(1e-4) == 0 and axis.share(10) == 100 and axis.share(0.1) == 60
    assert LogAxis.over([]).high > LogAxis.over([]).low


def test_where_the_loss_has_come_to_0_the_words_agree(model: LanguageModel):
    run = model.run(TEXT).at_rate(Rate(1000.0))
    found = learn(run, 5)
    assert found.losses[1:] == (0.0,) * 5
    view = learn_view(run, State(text=TEXT, eta=1000.0, steps=5), found)
    says = " ".join(view["curve_says"])
    assert "The lowest of these losses is" in says and "No step down" not in says
    assert "A loss cannot be negative" in says
    assert "After step 1 the loss is 0" in view["steps_say"] and "η is large" not in view["steps_say"]
    for n, token in enumerate(found.tokens):
        assert token == run.target or max(found.probabilities[0][n], found.probabilities[-1][n]) > 0
