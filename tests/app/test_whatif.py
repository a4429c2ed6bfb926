"""What if: the changed run beside the run as it was."""

from __future__ import annotations

import numpy as np
import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.features.whatif.view import whatif_view
from app.request.state import State
from model import load
from tests.app.conftest import TEXT

HEAD = "blocks.1.attn.z[:,2,:]=0"


def page(client: TestClient, state: State) -> BeautifulSoup:
    answer = client.get(state.url("/whatif"))
    assert answer.status_code == 200, answer.text
    return BeautifulSoup(answer.text, "lxml")


def test_the_page_compares_the_two_runs(client: TestClient):
    model = load("embedded")
    base = model.run(TEXT)
    changed = base.changed([HEAD])
    found = page(client, State(text=TEXT, changes=(HEAD,)))
    assert "head 2 of block 1 switched off" in found.select_one(".sets").text
    rows = {row.select_one(".words").text: row for row in found.select(".bars tbody tr")}
    assert not any(row.select_one("th") and row.select_one("th").text == "block 0" for row in rows.values())
    view = whatif_view(base, changed, State(text=TEXT, changes=(HEAD,)))
    z = next(row for row in view["sites"] if row["site"] == "blocks.1.attn.z")
    change = changed["blocks.1.attn.z"].astype(float) - base["blocks.1.attn.z"]
    assert z["rms"] == pytest.approx(float(np.sqrt((change**2).mean())), rel=1e-9)
    assert "blocks.0.resid_pre" in view["untouched"]
    token = found.select_one(".target-row")
    links = [a["href"] for a in token.select("a.num")]
    assert "set=" not in links[0] and "set=" in links[1]
    values = [client.get(link.replace("/explore", "/api/v1/explain")).json()["value"] for link in links]
    expected = [float(run.tensor("probs")[-1, base.target]) for run in (base, changed)]
    assert values == pytest.approx(expected, rel=1e-6)


def test_the_explorer_and_the_api_show_the_changed_run_and_say_so(client: TestClient):
    state = State(text=TEXT, changes=(HEAD, "embed[2,0]+=0.5"), at="blocks.1.attn.z[14,2,3]")
    answer = client.get(state.url())
    assert answer.status_code == 200
    note = BeautifulSoup(answer.text, "lxml").select_one(".set-note")
    head = load("embedded").run(TEXT).shape("blocks.1.attn.z")
    assert f"{head[0] * head[2] + 1} numbers were set by you" in note.text, "those of the head, and one"
    assert "set=" not in note.select("a")[1]["href"]
    assert client.get(state.api("explain")).json()["value"] == 0.0
    losses = {client.get(s.api("run")).json()["loss"] for s in (state, state.change(), state.change(HEAD))}
    assert len(losses) == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("embed[2,0]=1",), "1 number was set by you"),
        (("embed[2,0]=1", "embed[2,0]+=1"), "1 number was set by you"),
        (("embed[2,0:3]=1",), "3 numbers were set by you"),
        (("embed[2,0:3]=1", "embed[2:4,1]=0"), "4 numbers were set by you"),
        (("W_E[:,3]=0",), "numbers were set by you"),
    ],
)
def test_numbers_set_are_counted(client: TestClient, changes: tuple[str, ...], said: str):
    page = BeautifulSoup(client.get(State(text=TEXT, changes=changes).url()).text, "lxml")
    note = page.select_one("p.set-note").text
    said = said if said[0].isdigit() else f"{load('embedded').config.d_vocab:,} {said}"
    assert note.startswith(said)
    assert ("Take it away" in note) == (said == "1 number was set by you" and len(changes) == 1)


def test_the_additions_left_out_are_a_change_with_slopes(client: TestClient):
    state = State(text=TEXT, changes=("additions=off",), at="blocks.0.resid_pre[2,3]")
    found = page(client, state)
    assert "additions of all blocks left out" in found.select_one(".sets").text
    explored = BeautifulSoup(client.get(state.url()).text, "lxml")
    assert "Changed by you: additions=off" in explored.select_one(".set-note").text
    slope = next(a["href"] for a in explored.select("#why .tabs a") if "Gradient" in a.text)
    assert "set=additions%3Doff" in slope and client.get(slope).status_code == 200
    expected = load("embedded").run(TEXT).changed(["additions=off"]).values("blocks.0.resid_pre[2,3].grad")
    value = client.get(state.select("blocks.0.resid_pre[2,3].grad").api("explain")).json()["value"]
    assert value == pytest.approx(float(expected), rel=1e-5)


def test_a_neuron_becomes_part_of_the_address(client: TestClient):
    answer = client.get("/whatif?block=2&number=77", follow_redirects=False)
    assert answer.status_code == 303 and "set=blocks.2.mlp.post[:,77]%3D0" in answer.headers["location"]
    assert "neuron 77 of block 2" in client.get(answer.headers["location"]).text


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("set=foo", "set"),
        ("set=nowhere[0]=1", "set"),
        ("set=embed[99,0]=1", "set"),
        ("set=embed[0,0]=nan", "set"),
        ("set=" + "&set=".join(["embed[0,0]=1"] * 17), "set"),
        ("block=9&number=1", "neuron"),
    ],
)
def test_errors_name_the_part(client: TestClient, query: str, part: str):
    for path in ("/whatif", "/api/v1/run") if part == "set" else ("/whatif",):
        answer = client.get(f"{path}?{query.replace(']=', ']%3D')}")
        assert answer.status_code in (400, 404), answer.text
        if path.startswith("/api"):
            error = answer.json()["error"]
            assert error["part"] == part and error["hint"]
        else:
            assert BeautifulSoup(answer.text, "lxml").select_one("#fault")


def test_without_a_change_there_are_only_choices(client: TestClient):
    found = page(client, State(text=TEXT))
    assert not found.select_one(".verdict") and len(found.select("option")) == 4 * 6 + 1


def test_a_draft_stands_in_the_field_and_is_not_set(client: TestClient):
    answer = client.get("/whatif?draft=embed[2,5]%3D0.123456789%22")
    found = BeautifulSoup(answer.text, "lxml")
    assert found.select_one("input[name=set]")["value"] == 'embed[2,5]=0.123456789"'
    assert not found.select_one(".verdict") and not found.select_one(".sets")


def verdict(client: TestClient, state: State) -> str:
    return page(client, state).select_one(".verdict").text


def test_a_change_that_rounds_away_leaves_the_loss_where_it_was_and_draws_no_bar(client: TestClient):
    base = load("embedded").run(TEXT)
    said = verdict(client, State(text=TEXT, changes=(f"embed[2,0]={float(base.tensor('embed')[2, 0]):.9g}",)))
    assert "stays at" in said and "unchanged" in said
    state = State(text=TEXT, changes=("embed[2,0]+=1e-5",))
    assert "stays at" in verdict(client, state)
    view = whatif_view(base, base.changed(list(state.changes)), state)
    assert not any("<rect" in row["bar"] for row in view["tokens"])


def test_where_all_tokens_are_equally_likely_none_is_called_first(client: TestClient):
    base = load("embedded").run(TEXT)
    state = State(text=TEXT, changes=("W_E=0",))
    said = verdict(client, state)
    assert "equally likely" in said and "first guess" not in said
    assert len(whatif_view(base, base.changed(list(state.changes)), state)["tokens"]) == 5
