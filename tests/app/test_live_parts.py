"""The live parts of the first lesson: alone, as fragments, on other models and texts; numbers, settings, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.features.lessons.transformer import LESSON
from app.parts.table import PARTS
from model.study.heads import KINDS
from tests.app.conftest import TEXT
from tests.app.live_checks import (
    MOST_BYTES,
    OTHER_RUNS,
    bare_numbers,
    beyond,
    check_alone,
    check_fragment,
    check_links_and_form,
    check_wrong,
    section_of,
)
from tests.app.shown_numbers import Reader, read

LARGEST = {"follow": 150_000}  # all of a block on one page
SLOW = {"tiny", "cache", "paragraph"}

NAMES = [part.name for part in LESSON.live_parts]

# Settings that a part must be able to show, beside its defaults.
SETTINGS = {
    "guess": ["text=the cat sat", "text=&n=3"],
    "arrows": ["ax=-4&ay=4&bx=0&by=0", "ax=1&ay=0&bx=-1&by=0", "ax=1&ay=1&bx=1&by=-1"],
    "neighbours": ["a= Mary&b= John", "a=id:5&b=id:6"],
    "shuffle": ["positions=1", "words=one"],
    "rope": ["i=0&j=30&angle=180"],
    "scaling": ["d=1&seed=7", "d=512"],
    "mask": ["mask=0", "mask=0&show=scores&block=2&head=3", "show=scores"],
    "heads": ["block=3&head=2", *(f"block=1&head=1&kind={kind}" for kind in KINDS)],
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

# A setting that is wrong, and a word that the answer must say; of a part that is not here, one past its bounds.
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
    assert mine == set(NAMES) >= set(SETTINGS) | set(WRONG)


@pytest.mark.parametrize("name", NAMES)
def test_alone(client: TestClient, reader: Reader, name: str) -> None:
    for query in ["", *SETTINGS.get(name, [])]:
        check_alone(client, reader, name, query, most=LARGEST.get(name, MOST_BYTES))
    assert "frame-ancestors *" in client.get(f"/embed/{name}").headers["content-security-policy"]


@pytest.mark.parametrize("name", sorted(set(NAMES) - SLOW))
def test_links_and_forms_lead_somewhere(client: TestClient, name: str) -> None:
    check_links_and_form(client, name)


@pytest.mark.parametrize("name", sorted(set(NAMES) - SLOW))
@pytest.mark.parametrize("query", ["", *OTHER_RUNS])
def test_as_a_fragment_and_on_other_runs(client: TestClient, reader: Reader, name: str, query: str) -> None:
    check_fragment(client, reader, name, query)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_open_or_say_that_they_were_measured(client: TestClient, name: str) -> None:
    assert bare_numbers(client.get(f"/embed/{name}").text, name) == []


def test_a_number_opens_the_why_panel_beside_the_part(client: TestClient) -> None:
    url = "/embed/norm?at=calc(sqrt(3.5))"
    whole = client.get(url)
    assert 'id="why"' in whole.text and "1.8708" in whole.text
    panel = client.get(url, headers={"HX-Request": "true", "HX-Target": "why"})
    assert panel.text.lstrip().startswith('<section id="why"')


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_out_of_range_is_named(client: TestClient, name: str) -> None:
    check_wrong(client, name, *WRONG.get(name) or beyond(name))


@pytest.mark.parametrize(
    ("name", "query", "says", "hint"),
    [
        ("mask", "block=4", "There is no block 4: this model's are 0 to 3.", "Write block=0."),
        ("heads", "head=8", "There is no head 8: this model's are 0 to 3.", "Write head=0."),
        ("mask", "start=15", "There is no position 15: this text's are 0 to 14.", "Write start=0."),
        ("follow", "t=3", "There is no position 3: this text's are 0 to 2.", "Write t=0."),
        ("math_pull", "start=128", "There is no entry 128: a row's are 0 to 127.", "Write start=0."),
        ("math_scales", "rank=2305", "There is no rank 2305: this vocabulary's are 1 to 2304.", "Write rank=1."),
    ],
)
def test_what_a_run_does_not_have_is_said_in_one_way(
    client: TestClient, name: str, query: str, says: str, hint: str
) -> None:
    answer = client.get(f"/embed/{name}?{query}")
    fault = BeautifulSoup(answer.text, "lxml").select_one("#fault")
    assert answer.status_code == 400 and [p.get_text() for p in fault.select("p")][:2] == [says, hint]
    assert fault["data-part"] == query.partition("=")[0]


def test_the_last_of_each_is_there(client: TestClient) -> None:
    for url in ("mask?block=3&head=3&start=14", "neurons?t=14", "math_pull?start=127", "math_scales?rank=2304"):
        assert client.get(f"/embed/{url}").status_code == 200, url


def test_a_long_text_makes_buttons_that_carry_it(client: TestClient, reader: Reader) -> None:
    text = "The dog and the cat went to the park. " * 14
    answer = client.get("/embed/predictions", params={"text": text})
    assert "<button" in answer.text and reader.faults(answer.text) == []


def test_unknown(client: TestClient) -> None:
    assert client.get("/embed/nothing").status_code == 404


# -- what single parts say


def test_slopes_without_additions_open_in_the_run_without_them(client: TestClient, reader: Reader) -> None:
    section = section_of(client.get("/embed/stream", params={"text": TEXT}).text, "stream")
    run = reader.run({"text": TEXT})
    bare = run.changed(["additions=off"])
    for b, row in enumerate(section.select("tbody tr")[:-1]):
        with_them, without = row.select("a.num")[-2:]
        assert "set=" not in with_them["href"] and "set=additions%3Doff" in without["href"]
        for link, its in ((with_them, run), (without, bare)):
            value, half = read(link.get_text())
            assert abs(value - float(np.linalg.norm(its[f"blocks.{b}.resid_pre.grad"]))) <= 1.01 * half
        assert client.get(without["href"]).status_code == 200


def test_a_share_opens_text_by_text(client: TestClient, reader: Reader) -> None:
    """The mean over the runs of the test texts is the share that names the head."""
    section = section_of(client.get("/embed/heads", params={"text": TEXT}).text, "heads")
    links = section.select("table[aria-label^='What'] td:last-child a")
    assert len(links) == len(KINDS)
    for link in links:
        page = section_of(client.get(link["href"]).text, "heads")
        means = []
        for group in page.select(".tests tbody"):
            numbers = [*reader.numbers(str(page))]
            shares = [float(n.run.values(n.at)) for n in numbers if "pattern" in n.at and n.run.text != TEXT]
            assert len(group.select("tr")) > 2 and len(shares) >= 3
            means.append(read(group.select_one(".sum a").get_text())[0])
        assert min(means) == pytest.approx(read(link.get_text())[0], abs=0.0006)


def test_both_ways_through_the_matrices_are_those_of_numpy(client: TestClient, reader: Reader) -> None:
    section = section_of(client.get("/embed/collapse", params={"text": TEXT}).text, "collapse")
    run = reader.run({"text": TEXT})
    names = ("ln2.out", "mlp.W_in", "mlp.b_in", "mlp.W_out", "mlp.b_out")
    x, w1, b1, w2, b2 = (run[f"blocks.0.{name}"].astype(np.float64) for name in names)
    one = x[-1] @ (w1 @ w2) + (b1 @ w2 + b2)
    for i, row in enumerate(section.select("tbody tr")):
        two, product, _ = row.select("a.num")
        assert read(product.get_text())[0] == pytest.approx(one[i], abs=6e-5)
        assert read(two.get_text())[0] == pytest.approx(one[i], abs=6e-5)


def test_the_chance_of_a_paragraph_is_that_of_its_own_run(client: TestClient, reader: Reader) -> None:
    page = client.get("/embed/paragraph", params={"text": TEXT, "tokens": 4, "seed": 3}).text
    chance = next(n for n in reader.numbers(page) if "loss_per_token" in n.at)
    each = [n for n in reader.numbers(page) if n.at.startswith("probs")]
    product = math.prod(float(n.run.values(n.at)) for n in each)
    assert float(chance.run.values(chance.at)) == pytest.approx(product, rel=1e-4)
    assert chance.fault() == ""


def test_pairs_are_counted_and_times_are_measured(client: TestClient) -> None:
    section = section_of(client.get("/embed/cache", params={"text": TEXT, "tokens": 3}).text, "cache")
    *steps, total = section.select("tbody tr")
    counted = [[int(a.get_text()) for a in row.select("a.num")] for row in steps]
    assert counted == [[120, 120], [16, 136], [17, 153]]
    assert [int(a.get_text()) for a in total.select("a.num")] == [153, 409]
    assert all(len(row.select(".measured")) == 3 for row in steps)
