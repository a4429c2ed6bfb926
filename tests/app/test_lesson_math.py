"""The second lesson: its claims about several sentences and models, its size, links and headings."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.features.lessons.math import LESSON
from app.parts.table import PARTS
from model import Run
from tests.app import lesson_pages
from tests.app.lesson_pages import CASES, MOST_BYTES, addresses, claims, shown, soup, tokens, values, words
from tests.app.shown_numbers import Reader, read

PATH = "/lessons/math"
NAMES = [part.name for part in LESSON.live_parts]


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
    assert set(said) == set(CHECKS) - (set() if run.n_pos > 1 else {"total"})
    checked = {name: CHECKS[name](run, claim) for name, claim in said.items()}
    assert all(checked.values()), checked


def test_a_long_text_stays_a_small_page(client: TestClient) -> None:
    answer = client.get(PATH, params={"text": "The dog and the cat went to the park. " * 24})
    assert answer.status_code == 200 and len(answer.content) <= MOST_BYTES


# -- claims, each checked against the run in another way than the page makes it


def close(a: float, b: float, part: float = 1e-4) -> bool:
    return abs(a - b) <= part * max(abs(a), abs(b)) + 1e-9


def softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x.astype(np.float64) - x.max())
    return raised / raised.sum()


def place(run: Run) -> tuple[int, int, int]:
    """The prediction that the lesson takes slopes of: position, right answer, how many the loss is a mean of."""
    if run.is_sequence:
        return run.n_pos - 2, run.tokens[-1], run.n_pos - 1
    return run.n_pos - 1, run.target, 1


def head_of(claim: Tag) -> tuple[int, int]:
    said = re.search(r"block (\d+), head (\d+)", words(claim))
    assert said is not None
    return int(said[1]), int(said[2])


def check_look(run: Run, claim: Tag) -> bool:
    first, last, c = int(run.bos), run.n_pos - 1, run.model.config
    if last <= first:
        return "no earlier token" in words(claim)
    block, head = head_of(claim)
    found = re.findall(r"\d+", addresses(claim)[0])
    weight = float(run.values(addresses(claim)[0]))
    largest = max(float(run[f"blocks.{b}.attn.pattern[:,{last},{first}:{last}]"].max()) for b in range(c.n_layer))
    is_target = run.tokens[int(found[3])] == run.target and not run.is_sequence
    return (
        [block, head, last] == [int(x) for x in found[:3]]
        and first <= int(found[3]) < last
        and weight == largest
        and ("set as the target" in words(claim)) == is_target
        and ("start token left out" in words(claim)) == run.bos
    )


def check_votes(run: Run, claim: Tag) -> bool:
    block, head, query, key = (int(x) for x in re.findall(r"\d+", addresses(claim)[2]))
    q, k = run[f"blocks.{block}.attn.q[{query},{head},:]"], run[f"blocks.{block}.attn.k[{key},{head},:]"]
    products = q.astype(np.float64) * k
    climbs, falls, dot = values(run, claim)
    return (
        close(climbs, products[products > 0].sum())
        and close(falls, products[products < 0].sum())
        and abs(climbs + falls - dot) < 1e-4 * np.abs(products).sum()
    )


def check_ratio(run: Run, claim: Tag) -> bool:
    a, b = np.argsort(-run["probs"][-1], kind="stable")[:2]
    gap, ratio, pa, pb, quotient = values(run, claim)
    return (
        tokens(claim) == [shown(run, int(a)), shown(run, int(b))]
        and close(gap, float(run["logits"][-1][a]) - float(run["logits"][-1][b]))
        and close(ratio, np.exp(gap)) and close(ratio, quotient, 1e-3) and close(pa / pb, quotient)
    )  # fmt: skip


def check_divide(run: Run, claim: Tag) -> bool:
    if run.n_pos == 1:
        return "single token" in words(claim) and values(run, claim) == [1.0]
    gap, plain_ratio, ratio, divided, plain = values(run, claim)
    block, head, query, best = (int(x) for x in re.findall(r"\d+", addresses(claim)[3]))
    raw = run[f"blocks.{block}.attn.qk[{head},{query},0:{query + 1}]"]
    root = run.model.config.d_head**0.5
    first, second = np.sort(raw)[::-1][:2].astype(np.float64)
    evens = softmax(raw / root).max() < softmax(raw).max()
    return (
        best == int(raw.argmax()) and close(gap, first - second)
        and close(plain_ratio, np.exp(first - second)) and close(ratio, np.exp((first - second) / root))
        and close(plain, float(softmax(raw).max())) and close(divided, float(softmax(raw / root).max()))
        and ("evens nothing" not in words(claim)) and (("even nothing out" in words(claim)) != bool(evens))
    )  # fmt: skip


def check_product(run: Run, claim: Tag) -> bool:
    n = run.n_pos - 1
    if not n:
        return "single token" in words(claim)
    logs = [float(run["log_probs"][t, run.tokens[t + 1]]) for t in range(n)]
    text = claim.select_one("a, button").get_text()
    power = sum(logs) / np.log(10)
    if re.fullmatch(r"10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", text):
        return power < -300 and abs(read(f"1×{text}")[0]) < 1e-299
    value, half = read(text)
    return f"product of {n} number" in words(claim) and abs(value - 10**power) <= half * 1.01 + 1e-4 * 10**power


def check_total(run: Run, claim: Tag) -> bool:
    costs = [-float(run["log_probs"][t, run.tokens[t + 1]]) for t in range(run.n_pos - 1)]
    said = [int(x) for x in re.findall(r"at position (\d+)", words(claim))]
    worst = sorted(range(len(costs)), key=lambda t: -costs[t])[:2]
    named = said == [t + 1 for t in worst] if len(costs) > 1 else "All of it" in words(claim)
    return named and close(values(run, claim)[0], sum(costs))


def check_loss(run: Run, claim: Tag) -> bool:
    t, right, n = place(run)
    logs = run["log_probs"][t].astype(np.float64)
    others = np.argsort(-run["probs"][t], kind="stable")
    other = next(int(v) for v in others if v != right)
    dearer = run["probs"][t, other] < run["probs"][t, right]
    return (
        close(values(run, claim)[-1], -logs[other])
        and ("less" in words(claim)) != bool(dearer)
        and ("first guess" in words(claim)) == (run.target_is_own and not run.is_sequence)
        and (f"own {n} prediction" in words(claim)) == run.is_sequence
        and "loss" in addresses(claim)
    )


def check_slope(run: Run, claim: Tag) -> bool:
    t, right, n = place(run)
    p, less, slope = values(run, claim)
    return (
        close(p, float(run["probs"][t, right]))
        and abs(less - (p - 1)) < 1e-12
        and abs(slope - (p - 1) / n) < 1e-6
        and (f"part in {n}" in words(claim)) == (n > 1)
    )


def check_others(run: Run, claim: Tag) -> bool:
    """Predicted minus actual, against autograd's slopes; the wrong words named are the likeliest ones."""
    t, right, n = place(run)
    p = run["probs"][t].astype(np.float64)
    order = [int(v) for v in np.argsort(-p, kind="stable") if v != right][:3]
    p[right] -= 1
    expected = [p[v] / n for v in (right, *order)]
    return tokens(claim) == [shown(run, v) for v in (right, *order)] and np.allclose(
        values(run, claim), expected, atol=1e-6
    )


def check_pull(run: Run, claim: Tag) -> bool:
    t, right, n = place(run)
    p = run["probs"][t].astype(np.float64)
    other = next(int(v) for v in np.argsort(-p, kind="stable") if v != right)
    pull, push = values(run, claim)
    sum_of_rows = (p - np.eye(len(p))[right]) @ run["W_E"].astype(np.float64) / n
    slope = run["ln_final.out.grad"][t]
    return (
        abs(pull - (1 - p[right]) / n) < 1e-6
        and abs(push - p[other] / n) < 1e-6
        and np.allclose(slope, sum_of_rows, atol=1e-5 * np.abs(sum_of_rows).max() + 1e-7)
    )


def check_back(run: Run, claim: Tag) -> bool:
    end, start, ratio = values(run, claim)
    last = run.model.config.n_layer - 1
    first = float(np.linalg.norm(run["blocks.0.resid_pre.grad"]))
    return (
        close(start, first)
        and close(end, float(np.linalg.norm(run[f"blocks.{last}.resid_post.grad"])))
        and (close(ratio, start / end) if end else ratio == 0)
        and ("has not faded" in words(claim)) == (start >= end)
    )


def check_step(run: Run, claim: Tag) -> bool:
    """A step of plain PyTorch's SGD at the η that the page names."""
    import torch

    from model.arch.gpt2.network import GPT2

    t, right, _ = place(run)
    eta = float(re.search(r"η = ([\d.e-]+)", words(claim))[1])  # type: ignore[index]
    net = GPT2(run.model.config)
    net.load_state_dict(run.model.net.state_dict())
    ids = torch.tensor([run.tokens])

    def loss() -> tuple[torch.Tensor, float]:
        logs = net(ids)[0].log_softmax(-1)
        scored = -torch.stack([logs[at, run.next_token(at)] for at in run.scored]).mean()
        return scored, float(logs[t, right].detach().exp())

    before, p = loss()
    before.backward()
    with torch.no_grad():
        for weight in net.parameters():
            weight -= eta * weight.grad
        after, q = loss()
    said = words(claim)
    moved = float(after) - float(before.detach())
    if abs(moved) < 1e-6 * float(before.detach()) + 1e-9:
        return True  # rounding may go either way
    return (
        ("lowers" in said) == (moved < 0) and ("does not lower" in said) == (moved > 0) and ("rises" in said) == (q > p)
    )


CHECKS: dict[str, Callable[[Run, Tag], bool]] = {
    "look": check_look, "votes": check_votes, "ratio": check_ratio, "divide": check_divide, "product": check_product,
    "total": check_total, "loss": check_loss, "slope": check_slope, "others": check_others, "pull": check_pull,
    "back": check_back, "step": check_step,
}  # fmt: skip


# -- worked figures


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("dot", "That makes 4."),
        ("scores", "e ≈ 2.72 times as likely"),
        ("logs", "p = 1, the loss is 0. At p = 1/2 it is 0.69"),
        ("logs", "product of 14 numbers"),
    ],
)
def test_worked_figures(page: BeautifulSoup, section: str, says: str) -> None:
    assert says in words(page.select_one(f"section#{section}"))


# -- the page


def test_six_sections_in_order_and_a_glossary(page: BeautifulSoup) -> None:
    titles = [h2.get_text(" ", strip=True) for h2 in page.select("article > section > h2")]
    assert titles == [*(f"{n} {section.title}" for n, section in enumerate(LESSON.sections, 1)), "Symbols"]
    assert len(LESSON.sections) == 6
    assert all(tr.select_one("math") and tr.select("td")[1].get_text() for tr in page.select(".glossary tbody tr"))
    assert re.search(r"\d+ minutes to read", page.select_one(".kicker").get_text())


def test_it_is_a_page_like_every_lesson(client: TestClient, page: BeautifulSoup) -> None:
    lesson_pages.check_headings(page)
    lesson_pages.check_boosted(page)
    lesson_pages.check_links(client, page, every=9)
    lesson_pages.check_places(page, NAMES, now=["math_dot"])
    ids = {tag["id"] for tag in page.select("[id]")}
    assert all(part.home.startswith("math#") and part.home.partition("#")[2] in ids for part in LESSON.live_parts)


def test_all_at_once_for_paper(client: TestClient) -> None:
    lesson_pages.check_whole(soup(client, PATH, {"all": "1"}), NAMES)


def test_what_only_a_part_reads_does_not_change_the_prose(client: TestClient, page: BeautifulSoup) -> None:
    other = client.get(PATH, params={"eta": "0.5", "steps": "3"})
    assert words(BeautifulSoup(other.text, "lxml").select_one("[data-claim=step]")) == words(
        page.select_one("[data-claim=step]")
    )
    assert client.get(PATH, params={"set": "blocks.0.attn.z[0,0,0]=1"}).status_code == 200


def test_a_selected_number_is_part_of_the_url(client: TestClient) -> None:
    answer = client.get(PATH, params={"text": "Hi", "at": "loss.step(1)"})
    assert "Why " in BeautifulSoup(answer.text, "lxml").select_one("#why h2").get_text()


def test_the_lessons_lead_to_each_other(client: TestClient, page: BeautifulSoup) -> None:
    assert page.select_one("a[rel=prev]")["href"] == "/lessons/transformer"
    first = BeautifulSoup(client.get("/lessons/transformer").text, "lxml")
    assert first.select_one("a[rel=next]")["href"] == PATH
    assert PATH in client.get("/lessons").text
    assert page.select_one("#ask [name=target]")["value"] == " Mary"
    assert {part.name for part in LESSON.live_parts} <= set(PARTS)
