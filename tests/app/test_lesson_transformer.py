"""The first lesson: its worked figures, its claims about several sentences and models, its size, links and headings."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.features.lessons import code
from app.features.lessons.transformer import LESSON
from model import Run
from tests.app import lesson_pages
from tests.app.lesson_pages import CASES, MOST_BYTES, addresses, claims, shown, soup, tokens
from tests.app.shown_numbers import Reader

PATH = "/lessons/transformer"
PARTS = [part.name for part in LESSON.live_parts]


@pytest.fixture(scope="module")
def page(client: TestClient) -> BeautifulSoup:
    return soup(client, PATH)


@pytest.mark.parametrize("query", CASES.values(), ids=CASES)
def test_every_number_and_every_claim(wide_client: TestClient, reader: Reader, query: dict[str, str]) -> None:
    answer = wide_client.get(PATH, params=query)
    assert answer.status_code == 200
    assert len(answer.content) <= MOST_BYTES
    assert reader.faults(answer.text) == []
    run = reader.run({"target": "", **query})
    said = claims(BeautifulSoup(answer.text, "lxml"))
    checked = {name: CHECKS[name](run, claim) for name, claim in said.items()}
    assert all(checked.values()), checked
    assert {"top", "look", "active", "stream", "loss"} <= set(said)
    assert ("slope" in said) == (not run.is_sequence)


# -- claims, each checked against the run in another way than the page makes it


def check_top(run: Run, claim: Tag) -> bool:
    order = np.argsort(-run["probs"][-1], kind="stable")[:2]
    last = run.n_pos - 1
    return (
        tokens(claim) == [shown(run, int(v)) for v in order]
        and addresses(claim) == [f"probs[{last},{v}]" for v in order]
        and "first" in claim.get_text()
    )


def check_target(run: Run, claim: Tag) -> bool:
    return run.target != int(run["logits"][-1].argmax()) and tokens(claim) == [shown(run, run.target)]


def check_look(run: Run, claim: Tag) -> bool:
    first, last, c = int(run.bos), run.n_pos - 1, run.model.config
    if last <= first:
        return "too short" in claim.get_text()
    best = max(
        (float(run[f"blocks.{b}.attn.pattern[{h},{last},{k}]"]), -b, -h, -k)
        for b in range(c.n_layer) for h in range(c.n_head) for k in range(first, last)
    )  # fmt: skip
    said = re.search(r"block (\d+), head (\d+): .* at position (\d+)", claim.get_text(" ").replace("\n", " "))
    assert said is not None
    block, head, key = map(int, said.groups())
    is_target = run.tokens[key] == run.target and not run.is_sequence
    weight = float(run[f"blocks.{block}.attn.pattern[{head},{last},{key}]"])
    return (
        weight == best[0]
        and ("set as the target" in claim.get_text()) == is_target
        and ("start token left out" in claim.get_text()) == run.bos
    )


def check_active(run: Run, claim: Tag) -> bool:
    above = int((run["blocks.0.mlp.post"][-1] > 0).sum())
    return f"{above} of {run.model.config.d_mlp} neurons" in claim.get_text()


def check_stream(run: Run, claim: Tag) -> bool:
    rows = run["blocks.0.resid_pre"][-1], run[f"blocks.{run.model.config.n_layer - 1}.resid_post"][-1]
    grows = np.linalg.norm(rows[1]) > np.linalg.norm(rows[0])
    return ("pile up" in claim.get_text()) == bool(grows) and ("did not make it longer" in claim.get_text()) != bool(
        grows
    )


def check_ratio(run: Run, claim: Tag) -> bool:
    a, b = np.argsort(-run["probs"][-1], kind="stable")[:2]
    _gap, by_gap, by_probability = (float(run.values(at)) for at in addresses(claim))
    true = float(np.exp(np.float64(run["logits"][-1][a]) - np.float64(run["logits"][-1][b])))
    return abs(by_gap / true - 1) < 1e-9 and abs(by_probability / true - 1) < 1e-4


def check_loss(run: Run, claim: Tag) -> bool:
    words = claim.get_text()
    if run.is_sequence:
        return f"mean over its {run.n_pos - 1} prediction" in words
    own = "first guess" in words
    return own == run.target_is_own and shown(run, run.target) in tokens(claim) and addresses(claim)[-1] == "loss"


def check_slope(run: Run, claim: Tag) -> bool:
    """Predicted minus actual, against autograd's slopes."""
    p, last = run["probs"][-1].astype(np.float64), run.n_pos - 1
    p[run.target] -= 1
    found = {at: float(run.values(at)) for at in addresses(claim)}
    return f"logits[{last},{run.target}].grad" in found and all(
        abs(value - p[int(re.findall(r"\d+", at)[1])]) < 1e-6 for at, value in found.items()
    )


CHECKS = {
    "top": check_top, "target": check_target, "look": check_look, "active": check_active, "stream": check_stream,
    "ratio": check_ratio, "loss": check_loss, "slope": check_slope,
}  # fmt: skip


# -- worked figures


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("guess", "That is 1."),
        ("vectors", "Their dot product is 1.16."),
        ("vectors", "Under the roots stand 1.30 and 1.06"),
        ("vectors", "The cosine comes out at 0.988."),
        ("attention", "The exponentials are 1 and 3, their total 4, so the weights are 0.25 and 0.75"),
        ("attention", "three quarters of the other, (0.5, 3)"),
        ("attention", "makes one weight 2,981 times the other"),
        ("attention", "its weight, 0."),
        ("block", "the mean μ is 3."),
        ("block", "The deviations are −2, −1, 0, 3."),
        ("block", "the variance, is 3.5, and its root σ is 1.871"),
        ("block", "the row is (−1.069, −0.535, 0, 1.604)"),
        ("block", "That makes 173.9 billion"),
        ("block", "adds 0.6 billion, and together they are 175 billion"),
        ("block", "66.7 % of every block"),
        ("word", "the exponentials 1, 2 and 3. Their total is 6"),
        ("word", "1/6, 2/6 and 3/6: 0.167, 0.333, 0.500"),
        ("word", "at T = 1 that is 2.72, at T = 0.5 7.39, at T = 2 1.65"),
        ("learning", "is (0.5, −0.7, 0.2)"),
        ("learning", "A half costs 0.69"),
        ("fast", "1,000 against 500,500"),
    ],
)
def test_worked_figures(page: BeautifulSoup, section: str, says: str) -> None:
    words = " ".join(page.select_one(f"section#{section}").get_text().split())
    assert says in words


@pytest.mark.parametrize("v", [2, 7])
def test_the_rows_for_the_hand_check(page: BeautifulSoup, v: int) -> None:
    rows = {2: ["0.9", "0.3", "−0.2", "0.6"], 7: ["0.8", "0.4", "−0.1", "0.5"]}
    table = page.select_one("#vectors .hand")
    found = [[td.get_text() for td in tr.select("td")] for tr in table.select("tbody tr")]
    assert rows[v] in found


# -- the page


def test_ten_sections_in_order_and_a_glossary(page: BeautifulSoup) -> None:
    titles = [h2.get_text(" ", strip=True) for h2 in page.select("article > section > h2")]
    assert [title[:2].strip() for title in titles[:10]] == [str(n) for n in range(1, 11)]
    assert titles[10] == "Symbols"
    assert all(
        tr.select_one("math") and tr.select_one("th").get_text() and tr.select("td")[1].get_text()
        for tr in page.select(".glossary tbody tr")
    )


def test_it_is_a_page_like_every_lesson(client: TestClient, page: BeautifulSoup) -> None:
    lesson_pages.check_headings(page)
    lesson_pages.check_boosted(page)
    lesson_pages.check_links(client, page, every=25)
    lesson_pages.check_places(page, PARTS, now=["guess"])


def test_all_at_once_for_paper(wide_client: TestClient, reader: Reader) -> None:
    answer = wide_client.get(PATH, params={"all": "1"})
    lesson_pages.check_whole(BeautifulSoup(answer.text, "lxml"), PARTS)
    assert reader.faults(answer.text) == []


def test_a_selected_number_is_part_of_the_url(client: TestClient) -> None:
    answer = client.get(PATH, params={"text": "Hi", "at": "loss"})
    assert "Why " in BeautifulSoup(answer.text, "lxml").select_one("#why h2").get_text()
    assert client.get(PATH, params={"at": "loss[3]"}).status_code == 400
    assert client.get("/lessons/nothing").status_code == 404


def test_the_default_sentence_has_its_target(page: BeautifulSoup) -> None:
    assert page.select_one("#ask [name=target]")["value"] == " Mary"


# -- the file


def test_the_code_shown_is_the_file_that_runs(client: TestClient, root: Path) -> None:
    cells = re.findall(r'<td class="line"><code>(.*?)</code>', client.get(PATH).text)
    shown = "\n".join(unescape(re.sub(r"<[^>]*>", "", cell)) for cell in cells)
    assert shown == (root / "model" / "tiny.py").read_text("utf-8").rstrip("\n")


def test_every_line_of_the_file_has_its_section(page: BeautifulSoup) -> None:
    ids = {tag["id"] for tag in page.select("[id]")}
    lines = code.lines()
    first = next(n for n, line in enumerate(lines) if "class" in line.html and "Block" in line.html)
    assert all(line.section in ids for line in lines[first:] if line.html.strip())
    assert sum(bool(line.address) for line in lines) >= 12
