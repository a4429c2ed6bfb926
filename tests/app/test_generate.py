"""The page of generation and its JSON twin: what they show is what the model generates; the URL is the whole state."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from app.dependencies import generation_state
from app.features.generate.choice import (
    ROWS,
    brief_percent,
    choice_view,
    percent,
)
from app.features.generate.view import cache_view
from app.main import create_app
from app.render import numbers
from app.render.links import Links
from app.render.templating import Templates
from app.request.generation import MOST_TOKENS, GenerationState, picks_of
from app.request.state import State
from app.settings import AppSettings
from app.stores.budgeted import Busy
from app.stores.generations import Generations, key_of
from app.stores.models import ModelStore
from model import LanguageModel, load
from model.errors import SettingError
from model.runtime.generate import Step
from tests.app.conftest import save_checkpoint

TEXT = "Once upon a time, there was a"
SHAPE = {"temperature": 1.2, "top_k": 30, "top_p": 0.9}


def going_on() -> int:
    """A seed whose text goes on for a while, whatever the shipped weights are."""
    model = load("embedded")
    return next(seed for seed in range(1, 99) if len(list(model.generate(TEXT, 12, seed=seed, **SHAPE))) == 12)


SAMPLED = SHAPE | {"seed": going_on()}
QUERY = {"text": TEXT, "n": 6, **SAMPLED}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load("embedded")


@pytest.fixture(scope="module")
def steps(model: LanguageModel) -> list[Step]:
    found = list(model.generate(TEXT, 6, **SAMPLED))
    assert len(found) == 6, "these settings should not end the text"
    return found


def url_of(**query: Any) -> str:
    return "/generate?" + urlencode(query, doseq=True)


def soup(client: TestClient, path: str, status: int = 200, **headers: str) -> BeautifulSoup:
    answer = client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert answer.status_code == status, answer.text[:1500]
    return BeautifulSoup(answer.text, "lxml")


def one(page: BeautifulSoup | Tag, selector: str) -> Tag:
    found = page.select(selector)
    assert len(found) == 1, f"{selector}: {len(found)}"
    return found[0]


def shown(page: BeautifulSoup) -> list[str]:
    return [str(chip["aria-label"]) for chip in page.select(".made")]


# -- the page against the model


def test_tokens_and_their_probabilities(client: TestClient, model: LanguageModel, steps: list[Step]):
    page = soup(client, url_of(**QUERY))
    chips = page.select(".made")
    assert len(chips) == 6
    for step, chip in zip(steps, chips, strict=True):
        assert f"token {step.index}:" in str(chip["aria-label"]) and numbers.percent(step.prob) in str(
            chip["aria-label"]
        )
        assert one(chip, "small").text == brief_percent(step.prob)
    assert one(page, ".whole p").text == model.tokenizer.decode([*steps[-1].read, steps[-1].token])


@pytest.mark.parametrize("at", [0, 3])
def test_the_choice_is_the_models(client: TestClient, model: LanguageModel, steps: list[Step], at: int):
    """Each number of the ranking, and the run that its link opens has the same one at that address."""
    page = soup(client, url_of(**QUERY, step=at))
    choice = steps[at].choice
    rows = page.select(".ranking tbody tr:has(.rank)")
    read = model.tokenizer.decode(steps[at].read)
    run = model.run(read)
    for n, (row, candidate) in enumerate(zip(rows, choice.candidates(0, ROWS), strict=False)):
        cells = [cell.text for cell in row.select("td")]
        values = [candidate.prob, candidate.tempered, candidate.after_k, candidate.odds]
        cut = candidate.rank >= choice.kept
        assert cells[0] == str(n + 1) and cells[1] == numbers.fixed(candidate.logit, 2)
        assert cells[2:6] == [*(percent(x) for x in values[:3]), "cut" if cut else percent(values[3])]
        assert cells[6] == numbers.fixed(candidate.running, 4)
        assert (cells[7] == "") == cut
        for link, x in zip(row.select("a.num")[1:], values, strict=False):
            query = parse_qs(urlsplit(str(link["href"])).query)
            assert query["text"] == [read]
            assert float(run.values(query["at"][0])) == pytest.approx(x, rel=1e-4)
    edges = [edge.text for edge in page.select(".edge")]
    assert len(edges) == (choice.kept <= ROWS) + (choice.kept_by_k <= ROWS)
    says = one(page, "#choice .plain").text
    for x in (choice.probs[choice.token], choice.tempered[choice.token], choice.odds[choice.token]):
        assert percent(float(x)) in says
    assert numbers.fixed(choice.drawn, 4) in says
    assert all(numbers.fixed(end, 4) in says for end in choice.interval)
    acts = one(page, ".acts").text
    assert percent(choice.removed_by_k) in acts and percent(choice.removed_by_p) in acts


def test_the_shares_that_are_not_listed_are_links_to_their_sums(
    client: TestClient, model: LanguageModel, steps: list[Step]
):
    page = soup(client, url_of(**QUERY, first=ROWS))
    choice = steps[0].choice
    run = model.run(TEXT)
    for row, part in zip(page.select(".ranking .rest"), (choice.order[:ROWS], choice.order[2 * ROWS :]), strict=True):
        stages = (choice.probs, choice.tempered, choice.after_k, choice.odds)
        for link, stage in zip(row.select("a.num"), stages, strict=True):
            at = parse_qs(urlsplit(str(link["href"])).query)["at"][0]
            assert float(run.values(at)) == pytest.approx(float(stage[part].sum()), rel=1e-4, abs=1e-6)
            assert link.text == percent(float(stage[part].sum()))


def test_every_link_of_a_choice_opens(client: TestClient):
    page = soup(client, url_of(**QUERY, step=2))
    links = [str(link["href"]) for link in page.select("#choice a.num")]
    assert len(links) > 60
    for link in links[::6]:
        assert client.get(link).status_code == 200, link


def test_the_cache(client: TestClient, steps: list[Step]):
    page = soup(client, url_of(**QUERY))
    rows = page.select("#cache tbody tr")
    for step, row in zip(steps, rows[:-1], strict=True):
        cells = [cell.text for cell in row.select("td")]
        wanted = [step.rows.reused, step.rows.new, step.rows.pairs, step.rows.pairs_without]
        assert cells[2:6] == [numbers.count(n) for n in wanted]
    assert numbers.count(sum(step.rows.pairs_without for step in steps)) in rows[-1].text
    assert "up to rounding" in one(page, "#cache").text and len(page.select("#cache .chart")) == 2


def test_without_the_comparison(client: TestClient):
    page = soup(client, url_of(**QUERY, compare=0))
    assert len(page.select("#cache .chart")) == 1 and "up to rounding" not in one(page, "#cache").text
    assert one(page, "#ask [name=compare]").has_attr("checked")


def test_the_parts_stand_alone(model: LanguageModel):
    """In a lesson there is no page around them: no step to go to, no token to take."""
    cells, templates = Links(State(text=TEXT)), Templates()
    choice = choice_view(model, model.run(TEXT).next(**SAMPLED), cells)
    part = BeautifulSoup(templates.render("generate/_choice.html", choice=choice), "lxml")
    assert len(part.select(".ranking tbody tr:has(.rank)")) == ROWS and not part.select("form, button")
    assert all(str(link["href"]).startswith("/explore?") for link in part.select("a"))
    cache = cache_view(model, list(model.generate(TEXT, 3, compare=True, **SAMPLED)), cells)
    assert len(BeautifulSoup(templates.render("generate/_cache.html", cache=cache), "lxml").select("tbody tr")) == 4


# -- settings at their ends


@pytest.mark.parametrize(
    ("settings", "kept", "says"),
    [
        ({"temperature": 0}, 1, "nothing is drawn"),
        ({"temperature": 1e-4}, 1, "Temperature made it"),
        ({"temperature": 5, "top_k": 0, "top_p": 1}, 2304, "Temperature made it"),
        ({"top_k": 1}, 1, "Top-k 1 leaves only that one"),
        ({"top_k": 99999, "top_p": 1}, 2304, "Temperature made it"),
        ({"top_p": 0}, 1, "Top-p 0 leaves only that one"),
        ({"top_p": 1, "top_k": 12}, 12, "among the 12 tokens"),
    ],
)
def test_ends_of_the_settings(client: TestClient, settings: dict[str, Any], kept: int, says: str):
    page = soup(client, url_of(text=TEXT, n=1, **settings))
    assert says in one(page, "#choice .plain").text
    answer = client.get("/api/v1/generate", params={"text": TEXT, "n": 1, **settings}).json()
    choice = answer["tokens"][0]["choice"]
    assert choice["kept"] == kept or (settings == {"temperature": 0} and choice["kept"] == 1)
    assert choice["chosen"]["low"] < choice["chosen"]["high"]


# -- the URL is the state


def test_the_same_url_after_a_restart(client: TestClient, model: LanguageModel):
    url = url_of(**QUERY | {"n": 9}, pick="2:812", step=4)
    again = TestClient(create_app(AppSettings()))
    pages = [soup(one_client, url) for one_client in (client, again)]
    assert shown(pages[0]) == shown(pages[1]) and len(shown(pages[0])) > 2
    for selector in (".ranking", ".acts", "#choice .plain", ".number-line"):
        assert one(pages[0], selector) == one(pages[1], selector)


def test_a_branch_where_nothing_is_drawn(client: TestClient, model: LanguageModel):
    likeliest = list(model.generate(TEXT, 3, temperature=0))[2].choice
    page = soup(client, url_of(text=TEXT, n=5, temperature=0, pick=f"2:{int(likeliest.order[1])}", step=2))
    assert "the likeliest is" in one(page, "#choice .plain").text
    assert "likeliest" in [small.text for small in page.select(".ranking small")]
    for selector in ("#choice .plain", ".ranking", ".doing"):
        assert not re.search(r"\bdraw", one(page, selector).text)


def test_a_branch(client: TestClient, model: LanguageModel, steps: list[Step]):
    other = int(steps[2].choice.order[40])
    page = soup(client, url_of(**QUERY, pick=f"2:{other}", step=2))
    branch = list(model.generate(TEXT, 6, forced={2: other}, **SAMPLED))
    for step, chip in zip(branch, page.select(".made"), strict=True):
        assert numbers.percent(step.prob) in str(chip["aria-label"])
    assert "yours" in one(page, "#made-2")["class"]
    assert one(page, "#choice .plain").text.strip().startswith("You took")
    assert "the settings cut it" in one(page, "#choice .plain").text
    assert shown(page)[:2] == shown(soup(client, url_of(**QUERY)))[:2]
    drop = str(one(page, "#drop")["href"])
    assert shown(soup(client, drop)) == shown(soup(client, url_of(**QUERY)))


def test_take_buttons_lead_to_the_branch(client: TestClient):
    page = soup(client, url_of(**QUERY, pick=["1:900", "3:901"], step=2))
    form = one(page, "#take")
    fields = [(str(field["name"]), str(field["value"])) for field in form.select("input")]
    button = form.select("button")[3]
    taken = soup(client, f"/generate?{urlencode([*fields, ('pick', str(button['value']))])}")
    picks = dict(fields)["pick"], str(button["value"])
    assert picks[0] == "1:900", "what was taken later is forgotten"
    assert [str(field["value"]) for field in taken.select("#ask [name=pick]")] == list(picks)
    assert one(taken, "#made-2")["aria-current"] == "true" and "yours" in one(taken, "#made-2")["class"]


def test_asks_survive_their_url():
    models = ModelStore(AppSettings())
    ask = GenerationState(
        model="toy", text="the cat", bos=False, temperature=0.1 + 0.2, top_k=0, top_p=1.0, seed=2**53 - 1, n=60,
        stop="\\n", pick=("0:3", "5:1"), step=4, first=32, compare=False,
    )  # fmt: skip
    assert generation_state(models, QueryParams(urlsplit(ask.url()).query)) == ask
    assert GenerationState(text="x").url() == "/generate?text=x"


def test_asks_as_readers_write_them():
    query = "temperature=%200,5%20&top_k=&seed=3&text=a%0D%0Ab&pick=&pick=3:7"
    found = generation_state(ModelStore(AppSettings()), QueryParams(query))
    assert (found.temperature, found.top_k, found.seed, found.text) == (0.5, 40, 3, "a\nb")
    assert found.picks == ((3, 7),) and picks_of(["3:7", "3:8", "1:2"]) == ((1, 2), (3, 8))


def test_where_clicks_lead():
    ask = GenerationState(text="x", pick=("1:5", "3:6"), step=7, first=16)
    assert ask.take(2, 9).picks == ((1, 5), (2, 9)) and ask.take(2, 9).step == 2 and ask.take(2, 9).first == 0
    assert ask.take(1, None).picks == ()
    assert ask.look(2).picks == ask.picks and ask.make(999).n == MOST_TOKENS


def test_a_vocabulary_that_cannot_write_its_own_text_names_tokens(client: TestClient):
    """The toy goes on from “the” with “ mat”, then with “the”: “ matthe” is no word of its vocabulary."""
    assert client.get("/api/v1/generate?model=toy&n=20").status_code == 200
    pages = [soup(client, url_of(model="toy", n=20, step=step)) for step in range(20)]
    assert len(shown(pages[0])) == 20
    links = [str(one["href"]) for page in (pages[1], pages[-1]) for one in page.select("#choice a.num")[:1]]
    assert any("ids%3A" in link or "ids:" in link for link in links)
    assert all(client.get(link).status_code == 200 for link in links)


# -- a full context


def test_a_full_context(client: TestClient):
    """Eight places: what was dropped is struck out and told, and the links open the run of what was read."""
    steps = list(load("toy").generate("the cat sat on the", 6, temperature=2, seed=4, top_k=40, top_p=0.95))
    url = url_of(model="toy", n=6, seed=4, temperature=2, step=5)
    page = soup(client, url)
    assert steps[5].dropped == 5
    assert len(page.select(".dropped")) == 5
    says = [p.text for p in page.select("#cache .says") if "context was full" in p.text]
    assert len(says) == sum(step.rebuilt for step in steps) == 1
    assert "reads 8 tokens" in says[0] and "another position vector" in says[0]
    assert "rebuilt" in page.select("#cache tbody tr")[3].text
    link = page.select(".ranking a.num")[0]
    query = parse_qs(urlsplit(str(link["href"])).query)
    run = load("toy").run(query["text"][0])
    assert run.tokens == steps[5].read
    assert client.get(str(link["href"])).status_code == 200


def test_tokens_that_do_not_read_back_are_named(client: TestClient, model: LanguageModel):
    """Of a text whose tokens its letters would not give, the ids stand in the links."""
    pieces = [model.encode(letter, bos=False)[0] for letter in " the"]
    page = soup(client, url_of(text=TEXT, n=5, pick=[f"{n}:{token}" for n, token in enumerate(pieces)], step=4))
    query = parse_qs(urlsplit(str(page.select(".ranking a.num")[0]["href"])).query)
    assert query["text"][0].startswith("ids:")
    assert list(model.run(query["text"][0]).tokens) == [*model.encode(TEXT), *pieces]


# -- bad input


BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "hot": ({"temperature": "5.1"}, 400, "temperature"),
    "below zero": ({"temperature": "-1"}, 400, "temperature"),
    "no number": ({"temperature": "warm"}, 400, "temperature"),
    "NaN": ({"top_p": "nan"}, 400, "top_p"),
    "p over one": ({"top_p": "1.5"}, 400, "top_p"),
    "negative k": ({"top_k": "-2"}, 400, "top_k"),
    "half a token": ({"top_k": "2.5"}, 400, "top_k"),
    "negative seed": ({"seed": "-1"}, 400, "seed"),
    "huge seed": ({"seed": str(2**60)}, 400, "seed"),
    "no tokens": ({"n": "0"}, 400, "n"),
    "too many": ({"n": "61"}, 400, "n"),
    "long stop": ({"stop": "x" * 41}, 400, "stop"),
    "odd pick": ({"pick": "3"}, 400, "pick"),
    "unknown pick": ({"pick": "0:99999"}, 400, "pick"),
    "late pick": ({"pick": "60:1"}, 400, "pick"),
    "unknown model": ({"model": "nobody"}, 404, "model"),
    "long text": ({"text": "word " * 400}, 400, "text"),
    "nothing": ({"text": "", "bos": "0"}, 400, "text"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_values_name_the_part_and_keep_the_form(client: TestClient, name: str):
    params, status, part = BAD[name]
    given = {"text": "Some <b>words", "seed": "12", "stop": "!"} | params
    page = soup(client, url_of(**given), status)
    fault = one(page, "main .fault")
    assert fault["role"] == "alert" and fault.select("p")
    if part not in ("text", "model", "pick", "stop"):
        assert part in fault.text
        assert one(page, f"[name={part}]")["aria-invalid"] == "true"
        assert one(page, f"[name={part}]")["value"] == params[part]
    assert one(page, "#ask textarea").text.removeprefix("\n") == given["text"].rstrip("\0")
    assert one(page, "#ask [name=seed]")["value"] == given["seed"]
    told = client.get("/api/v1/generate", params=given)
    assert told.status_code == status and told.json()["error"]["part"] == part and told.json()["error"]["message"]
    notice = client.get(url_of(**given), headers={"HX-Request": "true", "HX-Target": "generation"})
    assert notice.status_code == status and notice.headers["HX-Retarget"] == "#notice"


def test_an_odd_comparison_names_the_part(client: TestClient):
    fault = one(soup(client, url_of(compare="perhaps"), 400), "#fault")
    assert "perhaps" in fault.text and "compare=0" in fault.text


@pytest.mark.parametrize("step", ["-1", "x"])
def test_a_bad_step(client: TestClient, step: str):
    assert "step" in one(soup(client, url_of(text=TEXT, step=step), 400), ".fault").text


def test_a_step_past_the_end_is_the_last(client: TestClient):
    page = soup(client, url_of(**QUERY, step=50))
    assert page.select(".made")[-1]["aria-current"] == "true"


def test_checks_of_an_ask():
    with pytest.raises(SettingError):
        GenerationState(n=61).in_range()


# -- a bit at a time


@pytest.fixture
def slow() -> TestClient:
    """An app that makes one token a request."""
    return TestClient(create_app(AppSettings(generate_seconds=0)))


def test_paged_without_javascript(slow: TestClient, client: TestClient):
    """The same URL goes on each time, until all are there."""
    url = url_of(**QUERY)
    for n in range(1, 6):
        page = soup(slow, url)
        assert len(page.select(".made")) == n
        assert str(one(page, "#go-on")["href"]).startswith("/generate?")
        url = str(one(page, "#go-on")["href"])
    page = soup(slow, url)
    assert not page.select("#go-on") and not page.select("#coming")
    assert shown(page) == shown(soup(client, url_of(**QUERY)))


def test_growing_with_htmx(slow: TestClient):
    page = soup(slow, url_of(**QUERY))
    url = str(one(page, "#coming")["data-hx-get"])
    labels = shown(page)
    while True:
        answer = slow.get(url, headers={"HX-Request": "true", "HX-Target": "coming"})
        part = BeautifulSoup(answer.text, "lxml")
        if "HX-Retarget" in answer.headers:
            break
        labels += shown(part)
        assert one(part, "#cache")["data-hx-swap-oob"] == "true" and "HX-Push-Url" not in answer.headers
        url = str(one(part, "#coming")["data-hx-get"])
    assert answer.headers["HX-Retarget"] == "#generation" and one(part, "#generation")
    assert len(shown(part)) == 6 and labels == shown(part)[:5]


def test_stop_keeps_what_is_there(slow: TestClient):
    soup(slow, url_of(**QUERY))
    page = soup(slow, url_of(**QUERY))
    stopped = soup(slow, str(one(page, "#stop")["href"]))
    assert len(stopped.select(".made")) == 2 and not stopped.select("#coming")
    assert one(stopped, "#ask [name=n]")["value"] == "2"
    assert one(stopped, "#more")


def test_making_more_goes_on(client: TestClient):
    page = soup(client, url_of(**QUERY | {"n": 3}))
    more = soup(client, str(one(page, "#more")["href"]))
    assert shown(more)[:3] == shown(page) and len(shown(more)) > 3


def test_ends(client: TestClient, model: LanguageModel):
    ended = soup(client, url_of(**QUERY, pick=f"1:{model.tokenizer.start_id}"))
    assert len(ended.select(".made")) == 2 and "end token" in one(ended, ".doing").text and not ended.select("#more")
    picks = [f"{n}:{model.encode(sign, bos=False)[0]}" for n, sign in enumerate("x\n")]
    stopped = soup(client, url_of(text=TEXT, n=5, stop="x\\n", pick=picks))
    assert len(stopped.select(".made")) == 2 and "stop text" in one(stopped, ".doing").text


# -- what the server holds


def test_no_work_without_a_request(tmp_path: Path):
    """Each request advances by what it may; between them nothing is made; memory stays within its budget."""
    settings = AppSettings(models=str(save_checkpoint(tmp_path / "little")), generation_memory_mb=1)
    models = ModelStore(settings)
    store = Generations(models, settings)

    async def go() -> None:
        key = key_of(models, GenerationState(model="little", text="a b", n=20))
        first = await store.advance(key, 20, 0)
        assert len(first.made) == 1
        await asyncio.sleep(0.05)
        assert len(first.made) == 1
        assert await store.advance(key, 3, 60) is first and len(first.made) == 3
        for seed in range(40):
            await store.advance(key_of(models, GenerationState(model="little", text="a b", n=5, seed=seed)), 5, 60)
        assert len(store.kept) < 41
        again = await store.advance(key, 3, 60)
        assert again is not first
        assert [m.step.token for m in again.made] == [m.step.token for m in first.made[:3]]

    asyncio.run(go())


def test_a_full_queue_says_so():
    settings = AppSettings(run_queue=1)
    models = ModelStore(settings)
    store = Generations(models, settings)
    key = key_of(models, GenerationState(text=TEXT, n=5))

    async def go() -> list[object]:
        return await asyncio.gather(*(store.advance(key, 5, 60) for _ in range(3)), return_exceptions=True)

    found = asyncio.run(go())
    assert [isinstance(one, Busy) for one in found] == [False, True, True]


def test_sizes(client: TestClient):
    """Short and long texts, the most tokens."""
    long = " ".join(["Once upon a time there was a little girl named Lily."] * 15)
    for text in (TEXT, long):
        answer = client.get(url_of(text=text, n=60, step=30, temperature=1.5))
        assert len(answer.content) <= 120_000, len(answer.content)


def test_markup_in_a_text(client: TestClient):
    answer = client.get(url_of(text="<script>alert(1)</script>", stop='"><i>', n=2))
    assert "<script>alert" not in answer.text and html.escape("<script>alert(1)") in answer.text
    assert not BeautifulSoup(answer.text, "lxml").find_all("i", string=re.compile('"'))


# -- JSON


def test_the_json_twin(client: TestClient, model: LanguageModel, steps: list[Step]):
    found = client.get("/api/v1/generate", params={**QUERY, "limit": 3}).json()
    assert found["complete"] and found["text"] == model.tokenizer.decode([*steps[-1].read, steps[-1].token])
    for step, token in zip(steps, found["tokens"], strict=True):
        choice = step.choice
        assert (token["id"], token["position"], token["picked"]) == (step.token, choice.position, False)
        assert token["prob"] == pytest.approx(step.prob, abs=1e-6)
        assert token["choice"]["kept"] == choice.kept and token["choice"]["drawn"] == choice.drawn
        assert len(token["choice"]["candidates"]) == 3
        assert token["choice"]["chosen"]["low"] == pytest.approx(choice.interval[0], abs=1e-6)
        assert token["cache"]["reused"] == step.rows.reused and token["cache"]["pairs"] == step.rows.pairs
        assert token["cache"]["difference"] <= 1e-4 * token["cache"]["scale"]
    token = found["tokens"][3]
    for name, at in token["choice"]["addresses"].items():
        params = {"text": token["read"]["text"], "bos": token["read"]["bos"], "at": at}
        value = client.get("/api/v1/values", params=params).json()["values"]
        wanted = token["choice"]["chosen"].get(name, token["choice"].get(name))
        assert value == pytest.approx(wanted, rel=1e-4, abs=1e-5), name


def test_json_goes_on_where_time_ran_out(slow: TestClient):
    found = [slow.get("/api/v1/generate", params=QUERY).json() for _ in range(6)]
    assert [len(answer["tokens"]) for answer in found] == [1, 2, 3, 4, 5, 6]
    assert [answer["complete"] for answer in found] == [False] * 5 + [True]


def test_openapi_describes_it(client: TestClient):
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    names = {parameter["name"] for parameter in paths["/api/v1/generate"]["get"]["parameters"]}
    assert names >= {"model", "text", "bos", "temperature", "top_k", "top_p", "seed", "n", "stop", "pick", "compare"}
