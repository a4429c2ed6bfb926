"""The why panel's gradient and after-a-step tabs: true numbers, links that resolve, nothing computed unasked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.panels import steps
from app.panels.values.view import values_view
from app.panels.why import names as why_names
from app.panels.why import steps as why_steps
from app.request.state import State
from model import load
from model.address.parser import Address, parse
from model.ops.update import Rate
from model.runtime.nudge import SIZES, nudges
from model.runtime.run import Run
from tests.app.test_why import (
    LIMIT,
    addresses,
    check_panel,
    last_digit,
    number_in,
    panel,
    places,
    sites,
    state_of,
)

TEXT = "When Mary and John went to the store, John gave a drink to"


@cache
def run_of(name: str, optimizer: str = "sgd") -> Run:
    if optimizer == "adamw":
        return run_of(name).at_rate(Rate(1e-3, "adamw"))
    return load(name).run("the cat sat on the mat" if name == "toy" else TEXT)


def quantities(run: Run, optimizer: str) -> Iterator[str]:
    """Every kind of quantity at one place of every site and parameter."""
    for site in sites(run):
        if site == "tokens":
            continue
        is_weight = run.model.graph[site].is_parameter
        at = places(run, site)[-1]
        if optimizer == "adamw":
            yield from (f"{at}.{quantity}" for quantity in ("step(2)", "m(2)", "v(2)") if is_weight)
        else:
            yield from (f"{at}.{quantity}" for quantity in ("grad", "grad(2)", "step", "step(4)"))


@pytest.mark.parametrize("name", ["toy", "embedded"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_every_quantity_has_a_panel(name: str, optimizer: str):
    run, checked = run_of(name, optimizer), 0
    for n, at in enumerate(quantities(run, optimizer)):
        state = state_of(run, at, optimizer=optimizer, order="index" if n % 2 else "size", trail=("loss",))
        _, html, soup = panel(run, state)
        check_panel(html, soup, at)
        for address in set(addresses(soup)):
            assert run.values(address).size > 0, f"{at} links to {address}"
        for link in soup.select("table.terms a.num, table.parts a.num, table.after a.num"):
            shown, address = link.get_text(), parse_qs(urlsplit(link["href"]).query)["at"][0]
            if not re.match(r"[+−\d∞]", shown):
                continue
            want = float(run.values(address)) * (100 if shown.endswith("%") else 1)
            near = 0.51 * last_digit(shown.lstrip("+")) + 1e-6 * abs(want)
            assert number_in(shown.lstrip("+")) == pytest.approx(want, abs=near), f"{at}: {address}"
            checked += 1
    assert checked > 60


@pytest.mark.parametrize("at", ["blocks.0.mlp.W_in[5,77].step(50)", "blocks.2.attn.pattern[1,14,2].step(50)"])
def test_panels_of_many_steps_are_small(at: str):
    _, html, _ = panel(run_of("embedded"), state_of(run_of("embedded"), at))
    assert len(html.encode()) <= LIMIT


def test_explained_in_the_step_s_own_run():
    """The panel's number is the explanation's, and following stays in the run after three steps."""
    run = run_of("embedded")
    for at in ("blocks.1.attn.q[14,1,3].step(3)", "blocks.1.attn.q[14,1,3].grad(3)", "loss.step(3)"):
        e = run.explain(at)
        why, _, soup = panel(run, state_of(run, at))
        assert why.value == (why.value if "step" in at else numbers_of(e.value))
        assert float(run.values(at)) == pytest.approx(e.value)
        links = [a["href"] for a in soup.select("table.terms a.num, dl.ends:last-of-type a")]
        found = {parse_qs(urlsplit(href).query)["at"][0] for href in links}
        assert found and all(".step(3)" in address or ".grad(3)" in address for address in found)


def numbers_of(x: float) -> str:
    from app.render.numbers import exact

    return exact(x)


# -- after a step


@pytest.mark.parametrize("at", ["blocks.0.mlp.W_in[5,77]", "W_E[MARY,5]", "blocks.1.attn.q[14,1,3]", "loss"])
@pytest.mark.parametrize("k", [1, 3])
def test_before_after_and_the_change(at: str, k: int):
    run = run_of("embedded")
    at = at.replace("MARY", str(run.tokens[2]))
    later = str(steps.stepped(run.check(parse(at)), k))  # type: ignore[arg-type]
    _, _, soup = panel(run, state_of(run, later))
    before, after, change = (number_in(td.get_text().lstrip("+")) for td in soup.select("table.after td"))
    a, b = float(run.values(at)), float(run.values(later))
    assert change == pytest.approx(b - a, rel=6e-3)
    assert after - before == pytest.approx(b - a, rel=0.06)
    link = soup.select("table.after a")[1]
    assert parse_qs(urlsplit(link["href"]).query)["at"] == [f"calc({later}-{at})"]
    chart = soup.select("figure figcaption")
    assert ("How far it has moved" in " ".join(caption.get_text() for caption in chart)) == (k == 3)


def test_terms_of_an_update_are_the_steps():
    run = run_of("embedded")
    at = "blocks.0.mlp.W_in[5,77]"
    _, _, soup = panel(run, state_of(run, f"{at}.step(3)"))
    rows = soup.select("table.terms tbody tr:not(.total)")
    assert [row.th.get_text() for row in rows] == ["weight before", "step 1", "step 2", "step 3"]
    slopes = [parse_qs(urlsplit(row.find_all("a")[0]["href"]).query)["at"][0] for row in rows[1:]]
    assert slopes == [f"{at}.grad({j})" for j in range(3)]
    totals = [number_in(row.find_all("td")[-1].get_text()) for row in rows]
    for k, total in enumerate(totals):
        assert total == pytest.approx(float(run.values(f"{at}.step({k})")), abs=6e-8)


def test_adamw_s_averages_are_reached_by_links():
    run = run_of("embedded", "adamw")
    at = "blocks.0.mlp.W_in[5,77]"
    _, _, soup = panel(run, state_of(run, f"{at}.step(2)", optimizer="adamw"))
    assert {f"{at}.m(2)", f"{at}.v(2)", f"{at}.step"} <= set(addresses(soup))
    assert "decay" in soup.select_one("table.terms").get_text()
    _, _, soup = panel(run, state_of(run, f"{at}.m(2)", optimizer="adamw"))
    assert {f"{at}.grad(0)", f"{at}.grad(1)"} <= set(addresses(soup))


def test_the_form_asks_for_other_steps():
    run = run_of("embedded")
    state = state_of(run, "W_E[61,5].step(3)", trail=("loss",), eta=0.01)
    _, _, soup = panel(run, state)
    form = soup.select_one("form.small-form")
    fields = {i["name"]: i.get("value", "") for i in form.find_all("input")}
    assert fields == {
        "model": "embedded", "text": TEXT, "at": "W_E[61,5]", "trail": "loss", "eta": "0.01", "after": "3",
    }  # fmt: skip
    learn = form.find("a")["href"]
    assert urlsplit(learn).path == "/learn" and parse_qs(urlsplit(learn).query)["steps"] == ["3"]


@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("at=loss&after=3", "loss.step(3)"),
        ("at=W_E[3,5]&after=1&eta=0.5", "W_E[3,5].step"),
        ("at=W_E[3,5].step(7)&after=2", "W_E[3,5].step(2)"),
        ("at=logits[2,5].grad&after=", "logits[2,5].grad"),
    ],
)
def test_the_form_s_answer(client: TestClient, query: str, address: str):
    html = client.get(f"/explore?{query}").text
    assert BeautifulSoup(html, "lxml").select_one("#why .addr").string == address


def test_a_large_model_takes_no_steps_unasked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.server.process.LARGE", 0)
    run = load("embedded").run("Mary gave a").at_rate(Rate(0.001))
    for at in ("W_E[3,5].step(2)", "logits[1,7].step", "W_E.step", "calc(loss.step(2)-loss)", "loss.grad(1)"):
        why, html, soup = panel(run, state_of(run, at, trail=("loss.step(4)",)))
        assert why.waiting and not why.value and run.steps_taken == 0
        assert "times the work of a run" in html
        link = soup.select_one(".check a")["href"]
        assert link.startswith("/learn?") and "go=1" in link
    run.learning.take(2)
    why, _, _ = panel(run, state_of(run, "W_E[3,5].step(2)"))
    assert why.value and not why.waiting


def test_the_page_of_a_large_model(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.server.process.LARGE", 0)
    answer = client.get("/explore", params={"text": "A page of its own", "at": "calc(loss.step(9)-loss)"})
    assert answer.status_code == 200 and "These steps are not taken yet" in answer.text


# -- slopes


def test_p_minus_y():
    run = run_of("embedded")
    last = run.n_pos - 1
    other = next(v for v, _ in run.top(5) if v != run.target)
    for v, word in ((run.target, "p − 1"), (other, "p − 0")):
        why, _, _ = panel(run, state_of(run, f"logits[{last},{v}].grad"))
        assert word in why.sentence
        assert float(run.values(f"logits[{last},{v}].grad")) == pytest.approx(
            float(run.values(f"probs[{last},{v}]")) - (v == run.target), abs=1e-6
        )


def test_both_uses_of_the_tied_table():
    run = run_of("embedded")
    at = f"W_E[{run.tokens[2]},5].grad"
    _, _, soup = panel(run, state_of(run, at))
    rows = soup.select("table.parts tr")
    assert [row.th.get_text() for row in rows] == ["as embedding", "as unembedding"]
    parts = [parse_qs(urlsplit(row.a["href"]).query)["at"][0] for row in rows]
    assert parts == [f"calc(partial({at},0:1))", f"calc(partial({at},1:{run.n_pos + 1}))"]
    assert sum(float(run.values(part)) for part in parts) == pytest.approx(float(run.values(at)), rel=1e-4)
    _, _, soup = panel(run, state_of(run, "W_E[1999,5].grad"))
    assert "does not stand in the text" in soup.select_one(".plain").get_text()


def test_readers_are_said_in_words():
    run = run_of("embedded")
    _, _, soup = panel(run, state_of(run, "blocks.1.ln1.out[14,5].grad"))
    rows = soup.select("table.parts tr")
    assert [row.th.get_text() for row in rows] == ["the queries", "the keys", "the values"]
    total = sum(number_in(row.find_all("td")[-1].get_text()) for row in rows)
    assert total == pytest.approx(float(run.values("blocks.1.ln1.out[14,5].grad")), rel=0.01)


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("blocks.1.attn.qk[1,3,5].grad", "The mask sets this score"),
        ("blocks.3.mlp.post[3,5].grad", "The loss is read at position 14 alone"),
        ("logits[3,5].grad", "The loss does not read this number"),
        ("W_pos[20,4].grad", "The text ends at position 14"),
        ("log_probs[14,5].grad", "a view beside it"),
    ],
)
def test_a_slope_of_nothing_has_its_reason(at: str, reason: str):
    run = run_of("embedded")
    why, html, _ = panel(run, state_of(run, at))
    assert why.value == "0" and reason in why.sentence and html.count(reason) == 1


@pytest.mark.parametrize("site", ["blocks.1.attn.q[14,1,3]", "blocks.0.mlp.W_in[5,77]", "blocks.2.ln1.mean[14]"])
def test_which_way_the_loss_goes(site: str):
    run = run_of("embedded")
    slope = float(run.values(f"{site}.grad"))
    why, _, _ = panel(run, state_of(run, f"{site}.grad"))
    assert f"the loss goes {'up' if slope > 0 else 'down'}" in why.sentence
    moved = float(run.changed([f"{site}+=0.05"]).tensor("loss"))
    assert (moved > float(run.tensor("loss"))) == (slope > 0)


# -- nudging


def test_nothing_is_nudged_unasked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.panels.why.nudge.nudges", lambda *_: pytest.fail("nudged"))
    run = run_of("embedded")
    state = state_of(run, "blocks.1.attn.q[14,1,3].grad", trail=("loss",))
    _, _, soup = panel(run, state)
    assert soup.select_one(".nudge a")["href"] == state.replace(nudge=1.0).url()


@pytest.mark.parametrize("at", ["blocks.1.attn.q[14,1,3]", "blocks.0.mlp.W_in[5,77]", "W_E[MARY,5]"])
def test_nudged_for_real(at: str):
    run = run_of("embedded")
    at = at.replace("MARY", str(run.tokens[2]))
    state = state_of(run, f"{at}.grad", nudge=0.25)
    _, html, soup = panel(run, state)
    check_panel(html, soup, f"{at}.grad")
    want = nudges(run, at, sorted({*SIZES, 0.25}, reverse=True))
    rows = soup.select(".nudge tbody tr:not(.total)")
    assert len(rows) == len(want) == 8
    for row, nudge in zip(rows, want, strict=True):
        lower, upper, secant, off = (td.get_text() for td in row.find_all("td"))
        assert number_in(row.th.get_text()) == pytest.approx(nudge.h)
        assert (number_in(lower), number_in(upper)) == pytest.approx((nudge.lower, nudge.upper), rel=1e-7)
        assert number_in(secant) == pytest.approx(nudge.secant, rel=1e-2, abs=1e-12)
        assert (off == "rounding") == nudge.is_lost
        for link, by in zip(row.find_all("a"), (-nudge.h, nudge.h), strict=True):
            query = parse_qs(urlsplit(link["href"]).query)
            assert query["at"] == ["loss"] and query["set"] == [f"{at}+={by!r}"]
    assert "rounding" in soup.select_one(".nudge").get_text()


@pytest.mark.parametrize(
    ("at", "instead"),
    [
        ("probs[14,{target}].grad", "logits[14,{target}].grad"),
        ("loss.grad", "logits[14,{target}].grad"),
        ("loss_per_token[3].grad", "logits[3,{next}].grad"),
        ("blocks.1.attn.exp[1,4,2].grad", "blocks.1.attn.scores[1,4,2].grad"),
        ("W_U[5,7].grad", "W_E[7,5].grad"),
        ("blocks.1.attn.q[14,1,3].grad(2)", "blocks.1.attn.q[14,1,3].grad"),
    ],
)
def test_what_cannot_be_nudged_names_what_can(at: str, instead: str):
    run = run_of("embedded")
    at, instead = at.format(target=run.target), instead.format(target=run.target, next=run.next_token(3))
    _, _, soup = panel(run, state_of(run, at))
    assert soup.select_one(".nudge code").get_text() == instead
    assert instead in set(addresses(soup))
    again = panel(run, state_of(run, instead))[2]
    assert again.select_one(".nudge a.do")


def test_a_masked_score_cannot_be_nudged():
    _, _, soup = panel(run_of("embedded"), state_of(run_of("embedded"), "blocks.1.attn.scores[1,3,5].grad"))
    assert "−∞" in soup.select_one(".nudge").get_text()


@pytest.mark.parametrize("given", ["0", "-1", "nan", "x", "1e9"])
def test_a_nudge_that_cannot_be(client: TestClient, given: str):
    answer = client.get("/explore", params={"at": "embed[1,2].grad", "nudge": given})
    assert answer.status_code == 400 and "nudge=0.1" in answer.text


# -- around it


def test_a_run_with_numbers_set_has_no_slopes():
    run = run_of("embedded").changed(["embed[2,5]=1"])
    _, _, soup = panel(run, state_of(run, "blocks.1.attn.q[14,1,3]", changes=("embed[2,5]=1",)))
    value, slope, step = soup.select(".tabs a")
    assert value["aria-current"] and all("take the changes away" in tab["title"] for tab in (slope, step))


def test_numbers_that_can_be_set_lead_to_what_if():
    run = run_of("embedded")
    for at, is_settable in (("embed[2,5]", True), ("W_E[3,4]", True), ("probs[1,2]", False), ("tokens[1]", False)):
        why, _, _ = panel(run, state_of(run, at))
        assert bool(why.whatif) == is_settable
        if is_settable:
            query = parse_qs(urlsplit(why.whatif).query)
            (draft,) = query["draft"]  # to be edited; nothing is set yet
            assert urlsplit(why.whatif).path == "/whatif" and "set" not in query
            place, _, value = draft.rpartition("=")
            assert place == at and np.float32(value) == np.float32(run.values(at))


@pytest.mark.parametrize(
    ("at", "word"),
    [
        ("blocks.1.attn.pattern[0,3,1].grad", "slope of weight"),
        ("blocks.1.attn.pattern[0,3,1].step(3)", "weight after 3 steps"),
        ("loss.step", "loss after 1 step"),
        ("W_E[3,4].grad(2)", "slope of W_E after 2 steps"),
        ("calc(loss.step(2)-loss)", "loss after 2 steps − loss"),
    ],
)
def test_words(at: str, word: str):
    assert why_names.word(run_of("embedded"), at) == word


@pytest.mark.parametrize("at", ["blocks.1.attn.q[3,1,2].step(3)", "blocks.0.mlp.W_in[5,7].step(3)", "loss.step(2)"])
def test_values_after_steps(at: str):
    run = run_of("embedded")
    view = values_view(run, state_of(run, at))
    assert re.search(r"after \d steps", view["title"])
    if view["stages"]:
        links = BeautifulSoup("".join(str(stage.link) for stage in view["stages"]), "lxml").find_all("a")
        found = [parse_qs(urlsplit(a["href"]).query)["at"][0] for a in links]
        assert all(isinstance(parse(address), Address) and ".step(" in address for address in found)


def test_numbers_apart():
    assert why_steps.apart(-0.12390137, -0.12390151) == ("−0.12390137", "−0.12390151")
    assert why_steps.apart(1.0, 2.0) == ("1", "2")


def test_steps_named():
    assert [steps.named(at) for at in ("loss", "loss.step", "calc(loss.step(3)-W_E[1,2].grad(7))")] == [0, 1, 7]


def test_state_turns_to_another_quantity():
    state = State(at="loss", trail=("probs[0,1]",), offset=20, nudge=0.5)
    assert state.turn("loss.step") == State(at="loss.step", trail=("probs[0,1]",))
