"""JSON answers against the model asked directly."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.main import create_app
from app.panels import schemas
from app.settings import AppSettings
from model import Run, load
from tests.app.conftest import TEXT

TOY = {"model": "toy", "text": "the cat sat on"}


@pytest.fixture(scope="module")
def toy() -> Run:
    return load("toy").run(TOY["text"])


@pytest.fixture(scope="module")
def run() -> Run:
    return load("embedded").run(TEXT)


def get(client: TestClient, path: str, **params: Any) -> Any:
    answer = client.get(f"/api/v1/{path}", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    return answer.json()


# -- models, run


def test_models(client: TestClient):
    found = schemas.Models.model_validate(get(client, "models"))
    assert found.default == "embedded"
    for card in found.models:
        model = load(card.name)
        assert card.n_parameters == model.n_parameters
        for name in ("n_layer", "n_head", "d_model", "d_head", "d_mlp", "d_vocab", "n_ctx", "act"):
            assert getattr(card, name) == getattr(model.config, name)
        model.run(card.text)


def test_run(client: TestClient, run: Run):
    found = schemas.RunAnswer.model_validate(get(client, "run", text=TEXT))
    assert [token.id for token in found.tokens] == list(run.tokens)
    assert bytes.fromhex("".join(token.bytes for token in found.tokens[1:])).decode() == TEXT
    assert found.target.kind == "token" and found.target.is_own and found.target.id == run.target
    assert found.loss == float(run["loss"])
    assert [(p.id, p.probability) for p in found.top] == run.top(len(found.top))
    for prediction in found.top:
        assert float(run[prediction.address]) == prediction.probability
    assert {site.name: tuple(site.shape) for site in found.sites} == {
        node.name: run.shape(node.name) for node in run.model.graph
    }


def test_run_with_a_target_and_without_a_start_token(client: TestClient):
    found = schemas.RunAnswer.model_validate(get(client, "run", **TOY, target=" mat", bos=0))
    direct = load("toy").run(TOY["text"], " mat", bos=False)
    assert [token.text for token in found.tokens] == ["the", " cat", " sat", " on"]
    assert (found.target.text, found.target.is_own) == (" mat", False)
    assert found.loss == float(direct["loss"])


def test_run_over_the_sequence(client: TestClient):
    found = schemas.RunAnswer.model_validate(get(client, "run", **TOY, target="sequence"))
    assert found.target.kind == "sequence" and found.target.id is None
    assert found.loss == float(load("toy").run(TOY["text"], "sequence")["loss"])


def test_tokens_that_are_not_whole_utf8_have_bytes_but_no_text(client: TestClient):
    found = schemas.RunAnswer.model_validate(get(client, "run", text="🦩"))
    assert bytes.fromhex("".join(token.bytes for token in found.tokens[1:])).decode() == "🦩"
    assert any(token.text is None for token in found.tokens)


# -- values


@pytest.mark.parametrize(
    "at",
    [
        "loss", "tokens", "blocks.0.attn.q", "blocks.0.attn.pattern[0,:,:]", "blocks.0.mlp.pre[1:3,2]", "logits[4,2:]",
        "W_E[:,0]", "W_U", "blocks.0.attn.result[1,0,:]", "calc(logits[4,1]-logits[4,2])",
    ],
)  # fmt: skip
def test_values(client: TestClient, toy: Run, at: str):
    found = schemas.Values.model_validate(get(client, "values", **TOY, at=at))
    direct = toy[at]
    assert tuple(found.shape) == direct.shape and len(found.axes) == len(found.starts) == direct.ndim
    assert np.array_equal(np.array(found.values, dtype=direct.dtype), direct)


@pytest.mark.parametrize("form", ["json", "csv", "npy"])
def test_a_calc_is_worked_out_once(client: TestClient, monkeypatch: pytest.MonkeyPatch, form: str):
    asked: list[str] = []
    really = Run.values

    def counted(self: Run, at: str) -> Any:
        asked.append(at)
        return really(self, at)

    monkeypatch.setattr(Run, "values", counted)
    query = {**TOY, "at": "calc(logits[4,:]*2)", "format": form}
    assert client.get("/api/v1/values", params=query).status_code == 200
    assert asked == [query["at"]]


def test_values_say_where_they_begin(client: TestClient):
    found = get(client, "values", **TOY, at="blocks.0.mlp.pre[1:3,2:]")
    assert found["axes"] == ["pos", "d_mlp"] and found["starts"] == [1, 2] and found["shape"] == [2, 6]
    assert found["address"] == "blocks.0.mlp.pre[1:3,2:]"


def test_values_that_json_cannot_write_are_strings(client: TestClient):
    found = get(client, "values", **TOY, at="blocks.0.attn.scores[0,0:2,0:2]")["values"]
    assert found[0][1] == "-Infinity" and all(isinstance(x, float) for x in (found[0][0], *found[1]))
    assert get(client, "values", **TOY, at="calc(0/0)")["values"] == "NaN"
    assert get(client, "values", **TOY, at="calc(1/0)")["values"] == "Infinity"


def test_values_as_csv(client: TestClient, toy: Run):
    answer = client.get("/api/v1/values", params={**TOY, "at": "blocks.0.attn.q[1:3,:,0]", "format": "csv"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="blocks.0.attn.q_1-3,-,0.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(rows[0]) == ["pos", "head", "value"]
    for row in rows:
        assert np.float32(row["value"]) == toy[f"blocks.0.attn.q[{row['pos']},{row['head']},0]"]
    assert len(rows) == 4


@pytest.mark.parametrize("at", ["loss", "blocks.0.attn.q", "tokens"])
def test_values_as_npy(client: TestClient, toy: Run, at: str):
    answer = client.get("/api/v1/values", params={**TOY, "at": at, "format": "npy"})
    found = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert found.dtype == toy[at].dtype and np.array_equal(found, toy[at])
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{at}.npy"'


def test_too_many_numbers_are_refused_with_a_way_out():
    client = TestClient(create_app(AppSettings(model="toy", max_numbers=10, max_file_numbers=30)))
    for form, at, status in [
        ("json", "logits", 400), ("csv", "logits", 400), ("npy", "logits", 400), ("npy", "logits[0:2,:]", 200),
        ("json", "logits[0,:]", 200), ("json", "calc(logits[:,:]*2)", 400),
    ]:  # fmt: skip
        answer = client.get("/api/v1/values", params={"text": TOY["text"], "at": at, "format": form})
        assert answer.status_code == status, (form, at, answer.text)
        if status == 400:
            error = answer.json()["error"]
            assert error["part"] == "at" and "40 numbers" in error["message"] and error["hint"]


# -- explanations


@pytest.mark.parametrize(
    "at",
    [
        "loss", "loss_per_token[1]", "probs[4,2]", "logits[4,2]", "ln_final.scale[2]", "blocks.0.attn.pattern[1,3,2]",
        "blocks.0.attn.scores[0,1,3]", "blocks.0.attn_out[2,1]", "blocks.0.mlp.post[2,5]", "embed[1,3]", "W_E[2,1]",
        "tokens[2]", "calc(logits[4,2]-logits[4,1])", "calc(max(logits[4,:]))",
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["size", "index"])
def test_explain(client: TestClient, toy: Run, at: str, order: Any):
    found = schemas.ExplanationAnswer.model_validate(get(client, "explain", **TOY, at=at, order=order, limit=3))
    direct = toy.explain(at, order=order, limit=3)
    for name in ("address", "site", "op", "value", "formula", "plain", "combine", "n_terms", "rest", "total",
                 "difference", "allowed", "fault"):  # fmt: skip
        mine, theirs = getattr(found, name), getattr(direct, name)
        assert mine == theirs or (math.isnan(mine) and math.isnan(theirs)), name
    assert (found.offset, found.limit, found.order) == (0, 3, order)
    assert found.used_by == list(direct.used_by) and found.notes == list(direct.notes)
    assert found.function == (direct.function.name if direct.function else None)
    assert [(t.index, t.product, t.label, t.place) for t in found.terms] == [
        (t.index, t.product, t.label, dict(t.place)) for t in direct.terms
    ]
    for term in found.terms:
        for factor in term.factors:
            assert (factor.address is None) != (factor.constant is None)
            if factor.address:
                assert float(toy[factor.address]) == pytest.approx(factor.value, rel=1e-12)


def test_explanations_can_be_paged(client: TestClient, toy: Run):
    whole = toy.explain("blocks.0.mlp_out[2,1]", order="size", limit=100).terms
    pages = [get(client, "explain", **TOY, at="blocks.0.mlp_out[2,1]", offset=n, limit=4)["terms"] for n in (0, 4, 8)]
    assert [term["index"] for page in pages for term in page] == [term.index for term in whole]


def test_terms_as_csv_are_all_of_them_and_make_the_total(client: TestClient, run: Run):
    answer = client.get("/api/v1/explain", params={"text": TEXT, "at": "blocks.1.mlp_out[3,5]", "format": "csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    direct = run.explain("blocks.1.mlp_out[3,5]")
    assert [int(row["index"]) for row in rows] == list(range(direct.n_terms))
    assert math.fsum(float(row["product"]) for row in rows) == pytest.approx(direct.total, abs=1e-12)
    for row in rows[::97]:
        product = float(row["factor_1_value"]) * float(row["factor_2_value"] or 1)
        assert product == pytest.approx(float(row["product"]), rel=1e-12)
        assert float(run[row["factor_1"]]) == float(row["factor_1_value"])
    assert "terms_of_blocks.1.mlp_out_3,5.csv" in answer.headers["Content-Disposition"]


def test_heads(client: TestClient):
    found = schemas.Heads.model_validate(get(client, "heads"))
    config = load("embedded").config
    assert [(h.block, h.head) for h in found.heads] == [
        (b, h) for b in range(config.n_layer) for h in range(config.n_head)
    ]
    assert all(0 <= h.previous <= 1 for h in found.heads if h.previous is not None)
    measured = client.app.state.services.models.heads("")
    assert [asdict(scores) for scores in measured] == [head.model_dump() for head in found.heads]
    assert schemas.Heads.model_validate(get(client, "heads", model="toy")).model == "toy"


# -- the description


def test_openapi_describes_every_route_with_its_errors(client: TestClient):
    found = get(client, "openapi.json")
    routes = ("models", "run", "values", "explain", "heads", "generate")
    jobs = ("", "/{id}", "/{id}/events", "/{id}/cancel")
    assert set(found["paths"]) == {f"/api/v1/{name}" for name in routes} | {f"/api/v1/jobs{path}" for path in jobs}
    for operation in (operation for path in found["paths"].values() for operation in path.values()):
        assert operation["summary"] and operation["description"]
        statuses = set(operation["responses"])
        assert {"200", "400", "404", "429", "503"} <= statuses and "422" not in statuses
        for parameter in operation.get("parameters", []):
            assert parameter.get("description") or parameter["name"] in ("format",), parameter["name"]
    number = found["components"]["schemas"]["Factor"]["properties"]["value"]
    assert {"type": "number"} in number["anyOf"] and "NaN" in number["anyOf"][1]["enum"]


def test_an_app_of_its_own_default_model(app: FastAPI):
    client = TestClient(create_app(AppSettings(model="toy")))
    assert get(client, "models")["default"] == "toy"
    assert get(client, "run")["text"] == "the cat sat on the"
