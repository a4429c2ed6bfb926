"""Exports: files that ask for nothing, whose numbers are the run's and whose links lead somewhere; whole data."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from bs4 import BeautifulSoup, Tag
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.features.export import view as export
from app.features.export.html import links_in, stand_alone
from app.features.export.routes import NotReady, finished
from app.features.export.view import DEEPEST
from app.main import create_app
from app.parts.table import PARTS
from app.request.state import State
from app.services import Services
from app.settings import AppSettings
from model import Run
from tests.app.shown_numbers import read

TEXT = "The cat sat on the"
LOCAL = "http://127.0.0.1:8000"
SITE = "https://numbers.example"
PATIENCE = 60.0  # seconds for what a reader is told to ask for again
REQUESTS = {"src", "srcset", "action", "formaction", "poster", "data", "style", "background", "ping"}


@pytest.fixture(scope="module")
def run(app: FastAPI) -> Run:
    """The very run that the files are made of."""
    runs = (services := app.state.services).runs
    assert isinstance(services, Services)
    return runs.submit(runs.key(State(text=TEXT, target="id:17"))).result().run


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files, to be quick."""
    monkeypatch.setattr(export, "MOST", (0, 12, 20))


def fetch(client: TestClient, name: str, *, site: str = SITE, **query: str) -> tuple[BeautifulSoup, str]:
    """A file as a browser would be given it, and its HTML; asked for again while it is being computed."""
    params, until = {"text": TEXT, "target": "id:17"} | query, time.monotonic() + PATIENCE
    while "Try again in a few seconds" in (answer := client.get(f"{site}/export/{name}", params=params)).text:
        assert time.monotonic() < until, answer.text[:500]
        time.sleep(0.5)
    assert answer.status_code == 200, answer.text[:500]
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9.,_+()-]+"', answer.headers["content-disposition"])
    return BeautifulSoup(answer.text, "lxml"), answer.text


def check_stands_alone(page: BeautifulSoup, html: str) -> None:
    """Nothing in the file can ask for anything, and every link within it leads somewhere."""
    assert not page.select(
        "script, link, img, iframe, object, embed, form, input, button, select, base, meta[http-equiv=refresh]"
    )
    for tag in page.find_all(True):
        bad = [name for name in tag.attrs if name in REQUESTS or name.startswith(("on", "data-", "hx-"))]
        assert not bad, f"{tag.name}: {bad}"
    css = page.style.string
    assert "url(" not in css and "@import" not in css
    policy = page.select_one("meta[http-equiv=Content-Security-Policy]")["content"]
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ") and f"style-src 'sha256-{digest}'" in policy
    ids = [tag["id"] for tag in page.select("[id]")]
    assert len(set(ids)) == len(ids)
    for name in ("aria-labelledby", "aria-describedby", "headers"):
        for tag in page.select(f"[{name}]"):
            assert set(str(tag[name]).split()) <= set(ids), tag[name]
    for link in page.select("[href]"):
        href = str(link["href"])
        assert href[1:] in ids if href.startswith("#") else href.startswith(f"{SITE}/"), href
    assert not page.select("a a, a:not([href])")


def panels(page: BeautifulSoup) -> Iterator[tuple[str, Tag]]:
    for panel in page.select(".root[id], .input"):
        yield str(panel["id"]), panel


# -- an explanation


@pytest.mark.parametrize(
    "at", ["logits[2,17]", "blocks.1.attn.pattern[0,4,3]", "blocks.0.mlp.post[3,5]", "blocks.1.attn.W_Q[0,5,3].grad",
           "W_E[17,3].step(2)", "calc(logits[4,17]-logits[4,5])", "tokens[2]", "loss"],
)  # fmt: skip
def test_an_explanation_stands_alone(at: str, client: TestClient, run: Run):
    page, html = fetch(client, "why.html", at=at, eta="0.01")
    check_stands_alone(page, html)
    learnt = run.at_rate(None) if "step" not in at else None
    for address, panel in panels(page):
        shown, half = read(panel.select_one("h2 .it").text)
        if learnt is not None:
            true = float(run.values(address))
            assert shown == true or abs(shown - true) <= half * 1.001 + 1e-12, address
    for link in page.select(".root a[href^='#']"):
        assert page.find(id=str(link["href"])[1:]) is not None
    first = page.select_one(".file-head dd a")
    assert parse_qs(urlsplit(str(first["href"])).query)["at"] == [at]
    assert "Every Number" in page.select_one(".file-head").text and "embedded" in page.select_one(".file-head").text


def test_all_terms_are_listed_up_to_a_bound(client: TestClient):
    page, _ = fetch(client, "why.html", at="logits[2,17]")
    rows = page.select(".root .terms tbody tr:not(.rest, .total)")
    assert len(rows) == 100
    assert "the other 28 terms" in page.select_one(".root .terms .rest").text
    whole, _ = fetch(client, "why.html", at="blocks.1.attn.qk[0,3,1]")
    assert len(whole.select(".root .terms tbody tr:not(.rest, .total)")) == 32 and not whole.select(
        ".root .terms .rest"
    )


def test_how_deep(client: TestClient):
    counts = []
    inputs = {f"blocks.0.attn.{x}[{t},1,{c}]" for x, t in (("q", 2), ("k", 1)) for c in range(2)}
    toy = {"model": "toy", "text": "the cat sat", "target": "", "at": "blocks.0.attn.qk[1,2,1]"}
    for depth in range(DEEPEST + 1):
        page, html = fetch(client, "why.html", depth=str(depth), **toy)
        check_stands_alone(page, html)
        ids = {str(panel["id"]) for panel in page.select(".input")}
        counts.append(len(ids))
        assert depth == 0 or inputs <= ids
    assert counts[0] == 0 < counts[1] < counts[2]
    assert all(n <= most for n, most in zip(counts, export.MOST, strict=True))
    assert client.get("/export/why.html", params={"at": "loss", "depth": "3"}).status_code == 400


@pytest.mark.parametrize(("site", "query"), [(LOCAL, {}), ("http://localhost:8000", {}), (SITE, {"links": "0"})])
def test_without_an_address_numbers_elsewhere_are_named(site: str, query: dict[str, str], client: TestClient):
    page, html = fetch(client, "why.html", site=site, at="logits[2,17]", depth="0", **query)
    check_stands_alone(page, html)
    assert not page.select("[href]:not([href^='#'])")
    named = {str(span["title"]) for span in page.select("table.terms span[title]")}
    assert "W_E[17,3]" in named or any(at.startswith("W_E[17,") for at in named)


@pytest.mark.parametrize("text", ['"><script>alert(1)</script>', "a&lt;b</style><b>", "'; x=y #ü 🙂\n\tz"])
def test_any_text_stays_text(text: str, client: TestClient):
    page, html = fetch(client, "why.html", text=text, at="embed[1,2]")
    check_stands_alone(page, html)
    assert "<script" not in html and html.count("</style>") == 1


def test_a_long_text_is_a_file_all_the_same(client: TestClient):
    """Past some length numbers are buttons on a page; in a file they are links again."""
    page, html = fetch(client, "why.html", text=" ".join(["the cat"] * 60), at="logits[20,17]")
    check_stands_alone(page, html)
    assert len(page.select(".root .terms a[href^='#']")) == 11


@pytest.mark.parametrize(
    "query", [{}, {"at": "logits"}, {"at": "nowhere[1]"}, {"at": "logits[99,1]"}, {"at": "calc(logits[2,:]*2)"}]
)
def test_what_cannot_be_explained(query: dict[str, str], client: TestClient):
    for name in ("why.html", "terms.csv", "notebook.ipynb"):
        answer = client.get(f"/export/{name}", params={"text": TEXT} | query)
        assert answer.status_code in (400, 404) and "Traceback" not in answer.text


# -- lessons


@pytest.mark.parametrize("name", PARTS)
def test_every_live_part_stands_alone(name: str, client: TestClient):
    query = {"text": TEXT, "target": "id:17", "steps": "1", "eta": "0.01", "depth": "0"}
    until = time.monotonic() + 60
    while client.get(f"/export/{name}.html", params=query).status_code == 409 and time.monotonic() < until:
        time.sleep(0.2)  # its learning steps are still being taken
    page, html = fetch(client, f"{name}.html", **query)
    check_stands_alone(page, html)
    assert page.select_one(".live-part h3").text.strip() == PARTS[name].title
    assert not page.select(".controls, .own")


def test_a_live_part_in_its_state_explains_its_numbers(client: TestClient):
    page, html = fetch(client, "arrows.html", ax="2", by="-1.5")
    check_stands_alone(page, html)
    assert [dd.text for dd in page.select(".settings dd")] == ["2", "1", "2", "-1.5"]
    links = page.select(".live-part a.num[href^='#']")
    assert len(links) >= 4
    for link in links:
        panel, (shown, half) = page.find(id=str(link["href"])[1:]), read(link.text)
        assert abs(read(panel.select_one("h2 .it").text)[0] - shown) <= half * 1.01


def test_a_whole_lesson_stands_alone(client: TestClient):
    page, html = fetch(client, "lessons/math.html", depth="0")
    check_stands_alone(page, html)
    assert len(page.select(".live-part")) >= 10 and len(page.select(".contents a")) == len(
        page.select("section[id] > h2")
    )
    assert client.get("/export/lessons/nowhere.html").status_code == 404
    assert client.get("/export/nowhere.html").status_code == 404


def test_an_unfinished_part_is_no_file():
    with pytest.raises(NotReady):
        finished('<div data-hx-get="/embed/x" data-hx-trigger="load delay:600ms"></div>')
    assert finished("<p>done</p>") == "<p>done</p>"


# -- data


def test_terms_are_whole_in_every_format(client: TestClient, run: Run):
    for at in ("logits[2,17]", "blocks.0.mlp.pre[3,5]", "probs[1,17]"):
        query = {"text": TEXT, "target": "id:17", "at": at}
        e = run.explain(at, limit=10_000)
        answer = client.get("/export/terms.npy", params=query)
        table = np.load(io.BytesIO(answer.content), allow_pickle=False)
        assert table.dtype == np.float64 and np.array_equal(table[:, -1], e.products)
        assert [row[~np.isnan(row)].tolist() for row in table[:, :-1]] == [
            [factor.value for factor in term.factors] for term in e.terms
        ]
        rows = list(csv.DictReader(io.StringIO(client.get("/export/terms.csv", params=query).text)))
        assert [float(row["product"]) for row in rows] == e.products.tolist()
        found = client.get("/export/terms.json", params=query).json()
        assert [term["product"] for term in found["terms"]] == e.products.tolist() and found["total"] == e.total


@pytest.mark.parametrize("file", ["why.html", "terms.csv", "terms.json", "terms.npy"])
def test_a_number_is_explained_once(file: str, client: TestClient, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    really = Run.explain

    def counted(self: Run, at: str, **window: Any) -> Any:
        asked.append(at)
        return really(self, at, **window)

    monkeypatch.setattr(Run, "explain", counted)
    at = "calc(exp(logits[2,17])-logits[2,5])"
    assert client.get(f"/export/{file}", params={"text": TEXT, "at": at, "depth": "0"}).status_code == 200
    assert asked == [at]


def test_values_in_every_format(client: TestClient, run: Run):
    at = "blocks.0.attn.pattern[1,:,0:3]"
    query = {"text": TEXT, "target": "id:17", "at": at}
    answers = {ending: client.get(f"/export/values.{ending}", params=query) for ending in ("csv", "json", "npy")}
    for ending, answer in answers.items():
        assert answer.headers["content-disposition"].endswith(f'.{ending}"')
    assert np.array_equal(np.load(io.BytesIO(answers["npy"].content)), run.values(at))
    assert np.array_equal(np.array(json.loads(answers["json"].text)["values"], np.float32), run.values(at))
    rows = list(csv.DictReader(io.StringIO(answers["csv"].text)))
    assert np.array_equal(np.array([row["value"] for row in rows], np.float32), run.values(at).ravel())
    assert client.get("/export/values.xml", params=query).status_code in (400, 404)


@pytest.mark.parametrize("at", ["logits[2,17]", "W_E[17,3]", "blocks.1.attn.pattern[0,4,3].grad"])
def test_every_file_of_the_menus_is_there(at: str, client: TestClient):
    page = BeautifulSoup(client.get("/explore", params={"text": TEXT, "at": at}).text, "lxml")
    n = 0
    for form in page.select(".download form"):
        fields = {str(field["name"]): str(field["value"]) for field in form.select("input")}
        for button in form.select("button"):
            more = {str(button["name"]): str(button["value"])} if button.has_attr("name") else {}
            answer = client.get(str(button["formaction"]), params=fields | more)
            assert answer.status_code == 200 and answer.content, button
            n += 1
    assert n >= 3 + (0 if at == "W_E[17,3]" else 3) + 3


# -- HTML that stands alone


def test_what_is_copied_and_what_is_left_out():
    def leads(href: str, at: str) -> str:
        return "#here" if "x[0]" in (href, at) else ""

    html = (
        '<svg viewBox="0 0 9 9"><a href="x[0]" class="k"><path d="M0 0"/></a><a href="y"><rect/></a></svg>'
        '<button form="go" name="at" value="x[0]" class="num">1 &lt; 2 &#8211;</button>'
        '<button name="at" value="z[1]" aria-label="z">3</button>'
        '<section aria-labelledby="a"><div role="region" aria-label="T" tabindex="0"></div></section>'
        "<form><p>gone <select><option>1</option></select></p></form>"
        '<div data-online><div>gone</div>gone</div><p data-own id="a" aria-labelledby="a b" hidden>kept<br>'
        "<img alt='&quot;'><use href='#g'/></p><script>gone()</script>"
    )
    assert stand_alone(html, leads, "p:") == (
        '<svg viewBox="0 0 9 9"><a href="#here" class="k"><path d="M0 0"/></a><g><rect/></g></svg>'
        '<a href="#here" class="num">1 &lt; 2 &#8211;</a>'
        '<span title="z[1]">3</span>'
        '<section><div role="group" aria-label="T" tabindex="0"></div></section>'
        '<p id="p:a" aria-labelledby="p:a p:b" hidden>kept<br>'
        "<img alt='&quot;'><use href=\"#p:g\"/></p>"
    )
    assert links_in(html) == [("x[0]", ""), ("y", ""), ("", "x[0]"), ("", "z[1]")]


def test_numbers_of_another_run_lead_to_the_site(app: FastAPI, run: Run):
    """A part may show two sentences: the same address is another number there."""
    file = export.File(app.state.services, run, State(text=TEXT, target="id:17"), export.Origin(SITE, ""))
    file.explain("loss")
    leads = file.leads()
    own, other = (State(text=text, target="id:17").select("loss").url() for text in (TEXT, "Another"))
    assert leads(own, "") == leads("", "loss") == "#loss"
    assert leads(other, "") == SITE + other
    assert parse_qs(urlsplit(leads("", "logits[0,1]")).query)["at"] == ["logits[0,1]"]


def test_below_a_prefix_and_on_a_public_host():
    """A file names the site as its readers reach it."""
    client = TestClient(create_app(AppSettings(root_path="/course", public_url=SITE)))
    page = BeautifulSoup(client.get("/course/export/why.html?text=Hi&at=loss&depth=0").text, "lxml")
    assert str(page.select_one(".file-head a")["href"]).startswith(f"{SITE}/course/explore?")
    menu = BeautifulSoup(client.get("/course/explore?text=Hi&at=loss").text, "lxml").select(".download button")
    assert menu and all(str(button["formaction"]).startswith("/course/export/") for button in menu)


def test_the_answer_has_the_policy_of_the_file(client: TestClient):
    answer = client.get("/export/why.html", params={"text": TEXT, "at": "loss"})
    policy = str(BeautifulSoup(answer.text, "lxml").select_one("meta[http-equiv=Content-Security-Policy]")["content"])
    assert answer.headers["content-security-policy"].startswith(policy)
    assert answer.headers["cache-control"] == "no-cache"
