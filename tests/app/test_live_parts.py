"""Every live part: alone, as a fragment, on other models and texts; its numbers, links, settings and errors."""

from __future__ import annotations

from html import unescape

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.live.table import PARTS
from tests.app.shown_numbers import Reader

HTMX = {"HX-Request": "true", "HX-Target": "live"}
SLOW = {"tiny", "cache", "paragraph"}

# Settings that a part must be able to show, beside its defaults.
SETTINGS = {
    "guess": ["text=the cat sat", "text=&n=3"],
    "arrows": ["ax=-4&ay=4&bx=0&by=0", "ax=1&ay=0&bx=-1&by=0", "ax=1&ay=1&bx=1&by=-1"],
    "neighbours": ["a= Mary&b= John", "a=id:5&b=id:6"],
    "shuffle": ["positions=1", "words=one"],
    "rope": ["i=0&j=30&angle=180"],
    "scaling": ["d=1&seed=7", "d=512"],
    "mask": ["mask=0", "mask=0&show=scores&block=2&head=3", "show=scores"],
    "heads": ["block=3&head=2"],
    "neurons": ["block=2&t=0"],
    "bend": ["x=-4"],
    "collapse": ["bend=1&block=1"],
    "stream": ["t=0"],
    "norm": ["a=-5&b=-5&c=-5&d=-5", "a=0.25&b=-3&c=1000&d=6"],
    "size": ["d=768&blocks=12&context=1024"],
    "follow": ["t=0", "model=toy&text=the cat sat on&bos=0&t=3", "model=toy&text=the cat sat"],
    "shift": ["add=-7.5", "a=50&b=-50&c=0&add=50"],
    "temperature": ["temperature=0", "temperature=0.1", "temperature=5"],
    "cut": ["temperature=0", "temperature=1&top_k=0&top_p=0.99", "top_k=3&top_p=1", "top_p=0"],
    "paragraph": ["tokens=3&seed=5"],
    "predictions": ["target=sequence", "start=3"],
    "cache": ["tokens=2"],
    "tiny": ["rounds=1"],
}

# A setting that is wrong, and a word that the answer must say.
WRONG = {
    "guess": ("n=99", "n is 99"),
    "arrows": ("ax=9", "ax is 9"),
    "neighbours": ("a=nosuchwordatall", "tokens"),
    "shuffle": ("words=one two three four five six seven eight", "holds 6"),
    "rope": ("i=31", "i is 31"),
    "scaling": ("d=0", "d is 0"),
    "mask": ("block=9", "no block 9"),
    "heads": ("head=77", "no head 77"),
    "neurons": ("t=400", "no position 400"),
    "bend": ("x=nan", "x"),
    "collapse": ("block=99", "no block 99"),
    "stream": ("t=99", "no position 99"),
    "norm": ("a=one", "a"),
    "size": ("d=0.5", "d"),
    "follow": ("t=3", "no position 3"),
    "shift": ("add=51", "add is 51"),
    "temperature": ("temperature=6", "temperature is 6"),
    "cut": ("top_p=1.5", "top_p is 1.5"),
    "paragraph": ("tokens=61", "tokens is 61"),
    "predictions": ("start=99", "no position 99"),
    "cache": ("tokens=1", "tokens is 1"),
    "tiny": ("learns=ab", "learns"),
}


@pytest.fixture(scope="module")
def reader(app: FastAPI) -> Reader:
    return Reader(app)


def test_every_part_of_the_lesson_is_tried_here() -> None:
    mine = {name for name, part in PARTS.items() if part.home.startswith("transformer#")}
    assert mine == set(SETTINGS) == set(WRONG)


@pytest.mark.parametrize("name", SETTINGS)
def test_alone(client: TestClient, reader: Reader, name: str) -> None:
    part = PARTS[name]
    for query in ["", *SETTINGS[name]]:
        answer = client.get(f"/embed/{name}?{query}")
        assert answer.status_code == 200, query
        page = BeautifulSoup(answer.text, "lxml")
        section = page.select_one(f"section#live-{name}")
        assert section is not None and section.select_one("h3").get_text() == part.title
        assert reader.faults(answer.text) == []
        assert "frame-ancestors *" in answer.headers["content-security-policy"]
        place = part.home.partition("#")[2]
        assert page.select_one("header .links a")["href"].endswith(f"#{place}")


@pytest.mark.parametrize("name", sorted(set(SETTINGS) - SLOW))
def test_links_and_forms_lead_somewhere(client: TestClient, name: str) -> None:
    page = BeautifulSoup(client.get(f"/embed/{name}").text, "lxml").select_one(f"#live-{name}")
    links = [a["href"] for a in page.select("a:not(.num)") if a["href"].startswith("/")]
    for url in [*links[:4], *links[-2:], *[a["href"] for a in page.select("a.num")[:2]]]:
        assert client.get(url).status_code == 200, url
    form = page.select_one("form.controls")
    if form is None:
        return
    fields = [(f["name"], f.get("value") or "") for f in form.select("input[name]")]
    fields += [(f["name"], f.select_one("[selected]")["value"]) for f in form.select("select")]
    assert len(fields) == len({field for field, _ in fields}), "a setting is sent twice"
    assert form["action"] == f"/embed/{name}" and form.select_one("button") is not None
    for slider in form.select("[data-pair]"):
        assert slider["data-pair"] in dict(fields)
        assert not slider.get("name")
    again = client.get(form["action"], params=fields)
    assert again.status_code == 200
    same = BeautifulSoup(again.text, "lxml").select_one(f"#live-{name}-out")
    assert same.get_text() == page.select_one(f"#live-{name}-out").get_text()


@pytest.mark.parametrize("name", sorted(set(SETTINGS) - SLOW))
def test_as_a_fragment(client: TestClient, reader: Reader, name: str) -> None:
    answer = client.get(f"/embed/{name}", headers=HTMX)
    assert answer.text.lstrip().startswith(f'<section class="live-part" id="live-{name}"')
    assert "<html" not in answer.text and "<script" not in answer.text and "style=" not in answer.text
    for number in BeautifulSoup(answer.text, "lxml").select("a.num")[:1]:
        assert number["href"].startswith("/explore?")


def test_a_number_opens_the_why_panel_beside_the_part(client: TestClient) -> None:
    url = "/embed/norm?at=calc(sqrt(3.5))"
    whole = client.get(url)
    assert 'id="why"' in whole.text and "1.8708" in whole.text
    panel = client.get(url, headers={"HX-Request": "true", "HX-Target": "why"})
    assert panel.text.lstrip().startswith('<section id="why"')


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_out_of_range_is_named(client: TestClient, name: str) -> None:
    query, says = WRONG[name]
    answer = client.get(f"/embed/{name}?{query}")
    assert answer.status_code == 400
    assert says in unescape(BeautifulSoup(answer.text, "lxml").select_one("#fault").get_text())


@pytest.mark.parametrize(
    "query", ["model=toy&text=the cat sat&bos=0", "text=Hi", "text=&target=id:3", "text=Ünïcödé 🙂 x"]
)
@pytest.mark.parametrize("name", sorted(set(SETTINGS) - SLOW))
def test_on_other_runs(client: TestClient, reader: Reader, name: str, query: str) -> None:
    answer = client.get(f"/embed/{name}?{query}", headers=HTMX)
    assert answer.status_code == 200
    assert reader.faults(answer.text) == []


def test_a_long_text_makes_buttons_that_carry_it(client: TestClient, reader: Reader) -> None:
    text = "The dog and the cat went to the park. " * 14
    answer = client.get("/embed/predictions", params={"text": text})
    assert "<button" in answer.text and reader.faults(answer.text) == []


def test_unknown(client: TestClient) -> None:
    assert client.get("/embed/nothing").status_code == 404
