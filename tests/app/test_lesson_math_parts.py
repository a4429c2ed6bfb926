"""The live parts of the second lesson: alone, as fragments, on other models and texts; numbers, settings, errors."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.features.lessons.math import LESSON
from app.parts import math_learn
from app.parts.table import PARTS
from model import Run
from model.ops.update import Optimizer, Rate
from model.runtime.learn import suggested_rate
from tests.app.live_checks import (
    OTHER_RUNS,
    bare_numbers,
    beyond,
    check_alone,
    check_fragment,
    check_links_and_form,
    check_wrong,
    finished,
)
from tests.app.shown_numbers import Reader, read

NAMES = [part.name for part in LESSON.live_parts]

# Settings that a part must be able to show, beside its defaults.
SETTINGS = {
    "math_dot": ["block=0&head=3&key=0", "block=3", "key=14", "text=Hi&bos=0"],
    "math_words": ["add=-7.5", "add=50", "target=id:5"],
    "math_divide": ["block=1&head=2"],
    "math_surprise": ["start=3", "target=sequence"],
    "math_scales": ["rank=1", "rank=2304"],
    "math_cost": ["answer= them", "answer=id:5", "target=sequence", "target=id:5"],
    "math_nudge": ["h=0.01", "h=4", "target=sequence", "target=id:5&h=1"],
    "math_slopes": ["words=1", "words=40", "target=sequence"],
    "math_pull": ["start=126", "target=sequence"],
    "math_back": ["block=0", "target=sequence"],
    "math_learn": [
        "eta=0.01&steps=2",
        "target=sequence&steps=1",
        "eta=0",
        "optimizer=adamw&steps=2",
        "eta=0.05&steps=3",
    ],
}

# A setting that is wrong, and words that the answer must say; of a part that is not here, one past its bounds.
WRONG = {
    "math_dot": ("key=99", "no position 99"),
    "math_words": ("add=51", "add is 51"),
    "math_divide": ("head=9", "no head 9"),
    "math_surprise": ("start=99", "no position 99"),
    "math_scales": ("rank=99999", "no rank 99999"),
    "math_cost": ("answer=two words", "tokens"),
    "math_nudge": ("h=0", "h is 0"),
    "math_slopes": ("words=41", "words is 41"),
    "math_pull": ("start=128", "no entry 128"),
    "math_back": ("block=9", "no block 9"),
    "math_learn": ("eta=-1", "eta"),
}


class Teacher(Reader):
    """Reads numbers of runs that learn at a rate, as their links say."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(app)
        self.learning: dict[tuple[Run, str, str], Run] = {}

    def run(self, query: dict[str, str]) -> Run:
        plain, eta, optimizer = super().run(query), query.get("eta", ""), query.get("optimizer", "")
        if not eta and not optimizer:
            return plain
        key = (plain, eta, optimizer)
        if key not in self.learning:
            rule: Optimizer = "adamw" if optimizer == "adamw" else "sgd"
            self.learning[key] = plain.at_rate(Rate(float(eta), rule) if eta else suggested_rate(plain, rule))
        return self.learning[key]

    def faults(self, html: str) -> list[str]:
        """Changes of probability are shown in points, a hundred to one."""
        found = []
        for number in self.numbers(html):
            if number.at.startswith("calc(") and "probs[" in number.at and "step(" in number.at:
                value, half = read(number.text)
                true = 100 * float(number.run.values(number.at))
                if abs(value - true) > half * 1.001 + 1e-9:
                    found.append(f"{number.at} is {true}, shown as {number.text}")
            elif fault := number.fault():
                found.append(fault)
        return found


@pytest.fixture(scope="module")
def teacher(app: FastAPI) -> Teacher:
    return Teacher(app)


def test_every_part_of_the_lesson_is_tried_here() -> None:
    mine = {name for name, part in PARTS.items() if part.home.startswith("math#")}
    assert mine == set(NAMES) >= set(SETTINGS) | set(WRONG)


@pytest.mark.parametrize("name", NAMES)
def test_alone(client: TestClient, teacher: Teacher, name: str) -> None:
    for query in ["", *SETTINGS.get(name, [])]:
        check_alone(client, teacher, name, query)


@pytest.mark.parametrize("name", NAMES)
def test_links_and_forms_lead_somewhere(client: TestClient, name: str) -> None:
    check_links_and_form(client, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("query", ["", *OTHER_RUNS])
def test_as_a_fragment_and_on_other_runs(client: TestClient, teacher: Teacher, name: str, query: str) -> None:
    check_fragment(client, teacher, name, query)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_open(client: TestClient, name: str) -> None:
    assert bare_numbers(finished(client, f"/embed/{name}?"), name) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_long_text_makes_buttons_that_carry_it(client: TestClient, teacher: Teacher, name: str) -> None:
    text = "The dog and the cat went to the park. " * 14
    finished(client, f"/embed/{name}?text={text}&steps=1")
    answer = client.get(f"/embed/{name}", params={"text": text, "steps": 1})
    assert 'name="at"' in answer.text and 'form="go"' not in answer.text
    assert teacher.faults(answer.text) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_out_of_range_is_named(client: TestClient, name: str) -> None:
    check_wrong(client, name, *WRONG.get(name) or beyond(name))


# -- what single parts say


def says(client: TestClient, url: str) -> str:
    page = BeautifulSoup(finished(client, url), "lxml")
    return " ".join(" ".join(p.get_text() for p in page.select(".live-out p, .live-out td")).split())


def test_adding_to_every_score_moves_no_share(client: TestClient) -> None:
    def shares(query: str) -> list[str]:
        page = BeautifulSoup(client.get(f"/embed/math_words?{query}").text, "lxml")
        return [row.select("td")[-1].get_text() for row in page.select("#live-math_words tbody tr")]

    assert shares("add=50") == shares("add=-50") == shares("")


def test_a_nudged_score_is_really_run_on_from(client: TestClient, teacher: Teacher) -> None:
    page = BeautifulSoup(client.get("/embed/math_nudge?h=0.5").text, "lxml")
    link = next(a for a in page.select("a.num") if "set=" in a["href"])
    run = teacher.run({"text": PARTS_TEXT, "target": ""})
    changed = run.changed([f"logits[{run.n_pos - 1},{run.target}]+=0.5"])
    assert abs(read(link.get_text())[0] - float(changed.tensor("loss"))) < 1e-4
    assert client.get(link["href"]).status_code == 200


def test_the_one_that_gave_most_is_named(client: TestClient, teacher: Teacher) -> None:
    for target in ("", " John"):
        page = BeautifulSoup(finished(client, f"/embed/math_learn?target={target}&eta=0.001&steps=4"), "lxml")
        run = teacher.run({"text": PARTS_TEXT, "target": target, "eta": "0.001"})
        lost = run["probs"][-1].astype(float) - run["probs.step(4)"][-1]
        said = next(p for p in page.select(".says") if "lost the most" in p.get_text())
        names = [token.get_text() for token in said.select(".tok")]
        expected = [run.model.tokenizer.text(v) for v in (run.target, int(lost.argmax()))]
        assert names == expected and lost[run.target] < 0


PARTS_TEXT = "When Mary and John went to the store, John gave a drink to"


def test_the_steps_are_those_of_the_rate_that_is_set(client: TestClient, teacher: Teacher) -> None:
    text = says(client, "/embed/math_learn?eta=0.01&steps=2")
    run = teacher.run({"text": PARTS_TEXT, "target": "", "eta": "0.01"})
    assert "2 steps lower it to" in text
    assert float(run.values("loss.step(2)")) < float(run.values("loss"))
    assert "With η = 0" in says(client, "/embed/math_learn?eta=0")


def test_what_a_step_does_is_said_as_it_is(client: TestClient, teacher: Teacher) -> None:
    """Of a short text at a wild η no step is promised to help."""
    for eta in (0.02, 3.0):
        run = teacher.run({"text": "Hi", "target": "sequence", "eta": f"{eta:g}"})
        before, after = (float(run.values(at)) for at in ("loss", "loss.step(1)"))
        word = "lowers" if after < before else "raises" if after > before else "leaves" if after == before else "breaks"
        assert f"One step {word}" in says(client, f"/embed/math_learn?text=Hi&target=sequence&eta={eta:g}&steps=1")


def test_a_large_model_waits_to_be_asked(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.process.LARGE", 1000)
    answer = client.get("/embed/math_learn?text=The sun and the rain")
    link = BeautifulSoup(answer.text, "lxml").select_one("#live-math_learn-out a[href*='go=1']")
    assert link is not None and "Whose share it took" not in answer.text
    assert "Whose share it took" in finished(client, link["href"])


def test_steps_under_way_ask_again(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_learn, "PATIENCE", 0.0)
    url = "/embed/math_learn?text=The moon and the stars&steps=3"
    page = BeautifulSoup(client.get(url).text, "lxml")
    waiting = page.select_one("#live-math_learn-out [data-hx-trigger]")
    assert waiting is not None and waiting["data-hx-get"].startswith("/embed/math_learn?")
    assert "Whose share it took" in finished(client, url)


def test_numbers_that_were_set_take_no_steps(client: TestClient) -> None:
    answer = client.get("/embed/math_learn", params={"set": "blocks.0.attn.z[0,0,0]=1"})
    assert answer.status_code == 400 and "as it is" in answer.text
