"""Long texts through the app: kept by their stream, their cost told, their pages small, the text once in the path."""

from __future__ import annotations

import re
import time
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote, urljoin

import numpy as np
import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.request.long_text import LONG, packed, unpacked
from app.request.paths import SAFE
from app.request.state import State
from app.settings import AppSettings
from tests.app.conftest import save_checkpoint

WORDS = "When Mary and John went to the store, John gave a drink to Mary, and then "
N_CTX = 700


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("models") / "long", n_ctx=N_CTX, n_head=4)


@pytest.fixture(scope="module")
def small(directory: Path) -> TestClient:
    """A server that keeps no run of more than 1 MiB whole."""
    return TestClient(create_app(AppSettings(model=str(directory), long_run_mb=1)))


@pytest.fixture(scope="module")
def large(directory: Path) -> TestClient:
    return TestClient(create_app(AppSettings(model=str(directory), long_run_mb=4000, run_memory_mb=4000)))


@pytest.fixture(scope="module")
def text(large: TestClient) -> str:
    """As many words as the model reads."""
    found = WORDS
    while large.get("/api/v1/run", params={"text": found + WORDS}).status_code == 200:
        found += WORDS
    assert len(quote(found)) > LONG
    return found.strip()


def test_long_runs_answer_as_whole_ones_do(small: TestClient, large: TestClient, text: str) -> None:
    ours, theirs = (client.get("/api/v1/run", params={"text": text}).json() for client in (small, large))
    assert ours["cost"]["kept"] == "stream" and theirs["cost"]["kept"] == "whole"
    assert ours["cost"]["nbytes"] < theirs["cost"]["nbytes"] / 3
    assert ours["cost"]["pass_seconds"] > 0 and ours["cost"]["gradient_seconds"] > 0
    assert len(ours["tokens"]) > N_CTX - 40
    for one in (ours, theirs):
        del one["cost"]
    assert ours == theirs
    for at in ("blocks.1.attn.pattern[2,600,:]", "blocks.0.mlp.post[650,3:9]", "probs[600,5]", "loss"):
        a, b = (client.get("/api/v1/values", params={"text": text, "at": at}).json() for client in (small, large))
        assert a == b
    for at in ("blocks.1.attn.qk[2,600,5:90].grad", "blocks.0.mlp.W_in[3,:].grad", "logits[600,0:50].grad"):
        a, b = (
            np.array(
                client.get("/api/v1/values", params={"text": text, "at": at, "target": "sequence"}).json()["values"]
            )
            for client in (small, large)
        )
        assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max()
    again = small.get("/api/v1/run", params={"text": text, "target": "sequence"}).json()["cost"]
    assert again["gradient_seconds"] < ours.get("cost", {"gradient_seconds": np.inf})["gradient_seconds"]
    assert again["gradient_seconds"] == 0


def test_too_long_a_text_is_told_its_length(small: TestClient, text: str) -> None:
    answer = small.get("/api/v1/run", params={"text": text + " " + WORDS * 2})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert re.search(r"The text is [7-9]\d\d tokens long; this model reads at most 700\.", message)
    page = small.get("/explore", params={"text": text + " " + WORDS * 2})
    assert page.status_code == 400 and "reads at most 700" in page.text and WORDS in unescape(page.text)


def test_steps_are_refused_with_their_cost(small: TestClient, text: str) -> None:
    for path, query in (
        ("/api/v1/explain", {"at": "loss.step"}),
        ("/api/v1/values", {"at": "W_E[5,0].step(3)", "eta": "0.1"}),
        ("/explore", {"at": "loss.step"}),
        ("/learn", {}),
    ):
        answer = small.get(path, params={"text": text, **query})
        assert answer.status_code == 400, path
        assert "too long to learn from" in answer.text and "MB" in answer.text, path


def test_a_job_of_steps_fails_with_their_cost(small: TestClient, text: str) -> None:
    job = small.post("/api/v1/jobs", json={"text": text, "steps": 2}).json()["id"]
    deadline = time.monotonic() + 30
    while (answer := small.get(f"/api/v1/jobs/{job}")).status_code in (200, 202):
        assert time.monotonic() < deadline and answer.json()["state"] != "done"
        time.sleep(0.02)
    assert answer.status_code == 400 and "too long to learn from" in answer.json()["error"]["message"]


def test_numbers_are_set_in_a_long_run(small: TestClient, large: TestClient, text: str) -> None:
    query = {"text": text, "at": "logits[650,0:9]", "set": "blocks.0.attn.z[:,1,:]=0"}
    a, b = (client.get("/api/v1/values", params=query).json() for client in (small, large))
    assert a == b
    assert a != small.get("/api/v1/values", params=query | {"set": ""}).json()


PLACES = (
    "",
    "blocks.1.attn.pattern[2,600,5]",
    "W_E[5,3]",
    "logits[600,7]",
    "blocks.0.ln1.mean[9]",
    "blocks.0.mlp.pre[600,7].grad",
    "loss",
)


@pytest.mark.parametrize("at", PLACES)
def test_pages_hold_the_text_once_and_stay_small(small: TestClient, text: str, at: str) -> None:
    page = small.get("/explore", params={"text": text, "at": at})
    assert page.history[0].status_code == 303 and page.status_code == 200
    assert page.url.path.startswith("/~") and "text" not in page.url.params
    assert len(page.content) <= 120_000
    panel = small.get(str(page.url), headers={"HX-Request": "true", "HX-Target": "why"})
    assert len(panel.content) <= 40_000
    assert quote(text, safe=SAFE) not in page.text
    assert page.text.count(escape(text)) == 1  # in the form's field
    tokens = re.findall(r'title="position (\d+), token', page.text)
    assert "0" in tokens and len(tokens) < 100
    assert "A long text" in page.text


def test_links_of_a_packed_page_lead_on_in_it(small: TestClient, text: str) -> None:
    """Every kind of link and form that leaves the text out finds it in the path again."""
    page = small.get("/explore", params={"text": text, "at": "blocks.1.attn.q[600,1,3]"})
    hrefs = {unescape(href) for href in re.findall(r'href="((?:explore|whatif|api/v1/\w+)\?[^"]*)"', page.text)}
    kinds = {href.split("?")[0] for href in hrefs}
    assert kinds == {"explore", "whatif", "api/v1/explain"}
    assert len(hrefs) > 100
    for href in sorted(hrefs)[:: len(hrefs) // 12]:
        answer = small.get(urljoin(str(page.url), href))
        assert answer.status_code == 200 and not answer.history, href
        if href.startswith("explore"):
            assert text in unescape(answer.text)
    (whatif,) = (href for href in hrefs if href.startswith("whatif"))
    assert "blocks.1.attn.q[600,1,3]=" in small.get(urljoin(str(page.url), whatif)).text
    assert not any(".step" in href for href in hrefs)  # a text this long takes none: its tab says why
    assert "takes no steps" in page.text
    forms = re.findall(r'<form[^>]*action="([^"]+)"', page.text)
    assert "explore" in forms
    file = small.get(urljoin(str(page.url), "export/values.csv"), params={"at": "blocks.1.attn.q[600,1,:]"})
    assert 'formaction="export/values.csv"' in page.text and file.text.splitlines()[0] == "d_head,value"
    moved = small.get(urljoin(str(page.url), "explore"), params={"at": "blocks.1.attn.q[600,1,3]", "row": 320})
    assert moved.status_code == 200 and "pos 320" in moved.text


def test_packing_is_undone_and_bad_packing_is_no_page(small: TestClient) -> None:
    for text in ("", "a", "naïve 🙂\n\ttext", "x" * 100_000, WORDS * 30):
        assert unpacked(packed(text)) == text
    assert len(packed(WORDS * 30)) < len(quote(WORDS * 30)) / 10
    whole = packed(WORDS * 30)
    for broken in (whole[:-9], whole[1:], "abc", "A" * 50, packed("x" * 2**21)):
        assert unpacked(broken) is None
        assert small.get(f"/~{broken}/explore").status_code == 404
    assert small.get(f"/~{whole}/generate").status_code == 404
    assert "Mary and then" in small.get(f"/~{packed('Mary and then')}/learn").text
    assert small.get(f"/~{packed('a text')}/api/v1/run").json()["text"] == "a text"


def test_a_short_text_stays_among_the_parameters(small: TestClient) -> None:
    page = small.get("/explore", params={"text": "Mary and John"})
    assert not page.history and "?text=Mary%20and%20John" in page.text
    assert State(text="Mary and John").url().startswith("/explore?text=")


def test_a_long_run_gives_up_what_it_can_compute_again_before_it_is_dropped(directory: Path, text: str) -> None:
    """Counted is all that it holds; the budget is kept after each answer, and the stream is not computed again."""
    app = create_app(AppSettings(model=str(directory), long_run_mb=1, run_memory_mb=8))
    client, runs = TestClient(app), app.state.services.runs
    query = {"text": text, "target": "sequence"}
    client.get("/api/v1/run", params=query)
    (kept,) = runs.kept.values
    run = kept.run
    assert run.is_long
    seen = 0
    for at in ("blocks.1.attn.pattern[0,9,:]", "blocks.0.attn.exp[1,9,:]", "blocks.1.attn.scores[0,9,:].grad"):
        assert client.get("/api/v1/values", params=query | {"at": at}).status_code == 200
        assert runs.kept.values == [kept]
        assert runs.kept.nbytes == run.nbytes <= 8 * 2**20
        seen = max(seen, run.nbytes)
    assert seen > 6 * 2**20  # no more than needed is given up
    client.get("/api/v1/run", params={"text": "a word"})
    assert len(runs.kept) == 2 and runs.kept.nbytes <= 8 * 2**20


@pytest.mark.parametrize("kept", [True, False])
def test_a_packed_page_under_a_prefix(directory: Path, text: str, kept: bool) -> None:
    """Whether the proxy leaves the prefix on or takes it off."""
    client = TestClient(
        create_app(AppSettings(model=str(directory), root_path="/every-number")), follow_redirects=False
    )
    front = "/every-number" if kept else ""
    moved = client.get(f"{front}/explore", params={"text": text, "at": "loss"})
    assert moved.status_code == 303 and moved.headers["location"].startswith("/every-number/~")
    page = client.get(front + moved.headers["location"].removeprefix("/every-number"))
    assert page.status_code == 200 and text in unescape(page.text)
    assert 'href="explore?at=loss_per_token' in page.text and "/every-number/static/" in page.text
