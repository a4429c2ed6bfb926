"""Pages and their parts: what they show is what the run holds, their links work, their size stays within bounds."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.main import create_app
from app.render import numbers
from app.render.numbers import exact
from app.settings import AppSettings
from model import Run, load
from model.embedded.lookups import HEAD
from tests.app.conftest import TEXT, save_checkpoint

TOY = "the cat sat on the"
ZONES = {"HX-Request": "true", "HX-Target": "zones"}


@pytest.fixture(scope="module")
def run() -> Run:
    return load("embedded").run(TEXT)


def soup(client: TestClient, path: str, **headers: str) -> BeautifulSoup:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text[:2000]
    return BeautifulSoup(answer.text, "lxml")


def one(page: BeautifulSoup | Tag, selector: str) -> Tag:
    found = page.select(selector)
    assert len(found) == 1, f"{selector}: {len(found)}"
    return found[0]


def address_of(link: Tag) -> str:
    return parse_qs(urlsplit(str(link["href"])).query)["at"][0]


# -- home and about


def test_home_shows_live_numbers_that_can_be_clicked(client: TestClient, run: Run):
    page = soup(client, "/")
    links = page.select(".now a.num")
    assert len(links) >= 4
    for link in links:
        value = float(run[address_of(link)])
        assert link.text in (numbers.percent(value), exact(value))
        assert client.get(str(link["href"])).status_code == 200


def test_examples_of_home_can_be_run(client: TestClient):
    links = soup(client, "/").select(".examples a")
    assert len(links) == 6
    for link in links:
        page = soup(client, str(link["href"]))
        assert one(page, "#ask textarea").text.strip() == link.text.removesuffix(" …").strip()


def test_home_of_an_app_on_the_toy():
    page = soup(TestClient(create_app(AppSettings(model="toy"))), "/")
    assert one(page, "textarea").text.strip() == TOY and not page.select(".examples")


@pytest.mark.parametrize("path", ["/", "/about", "/about/heads", "/explore", "/explore?model=toy"])
def test_links_of_a_page_answer(client: TestClient, path: str):
    page = soup(client, path)
    urls = list(dict.fromkeys(str(a["href"]) for a in page.select("a[href]") if not str(a["href"]).startswith("#")))
    for url in urls[:: max(1, len(urls) // 40)]:
        assert client.get(url).status_code == 200, url


@pytest.mark.parametrize("path", ["/", "/about", "/about/heads", "/explore", "/explore?model=toy", "/nowhere"])
def test_pages_are_well_formed(client: TestClient, path: str):
    page = BeautifulSoup(client.get(path).text, "lxml")
    ids = [str(tag["id"]) for tag in page.select("[id]")]
    assert len(ids) == len(set(ids)), sorted(i for i in ids if ids.count(i) > 1)
    assert len(page.select("h1")) == 1 and len(page.select("main")) == 1
    assert page.html is not None and page.html["lang"] == "en"
    assert page.title is not None and "Every Number" in page.title.text
    for name in ("aria-labelledby", "aria-describedby", "for", "form"):
        for tag in page.select(f"[{name}]"):
            assert set(str(tag[name]).split()) <= set(ids), tag
    for tag in page.select("a[href^='#']"):
        assert str(tag["href"])[1:] in ids
    for field in page.select("input:not([type=hidden]), textarea, select"):
        labelled = (
            field.find_parent("label") or field.get("aria-label") or page.select(f"label[for='{field.get('id')}']")
        )
        assert labelled, field


def test_about_shows_every_model_and_library(client: TestClient):
    page = soup(client, "/about")
    cards = page.select("article.card")
    assert [one(card, "h3").text for card in cards] == ["embedded", "toy"]
    for card in cards:
        assert numbers.count(load(one(card, "h3").text).n_parameters) in card.text
    assert len(page.select("#built-h ~ div tbody tr")) >= 8
    assert not re.search(r"/(home|root|tmp|usr)/", page.text)
    assert "A small true GPT-2" in cards[0].text and "|---|" not in page.text and "| |" not in page.text


def test_heads_are_a_page_and_a_part_of_one(client: TestClient):
    page = soup(client, "/about/heads?model=embedded")
    config = load("embedded").config
    rows = page.select("#heads tbody tr")
    assert len(rows) == config.n_layer * config.n_head
    assert client.get(str(rows[-1].select("a")[0]["href"])).status_code == 200
    part = client.get("/about/heads?model=embedded", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<div id="heads">') and "<html" not in part
    taught = f"Training asked block {config.n_layer - 1}, head {HEAD} to look at the receiver"
    assert taught in part and "Training asked" not in client.get("/about/heads?model=toy").text


# -- the explorer


def test_the_sentence_shows_tokens_guesses_and_loss(client: TestClient, run: Run):
    page = soup(client, "/explore")
    section = one(page, "#sentence")
    tokens = section.select("#tokens a")
    assert [address_of(token) for token in tokens] == [f"tokens[{t}]" for t in range(run.n_pos)]
    assert "".join(one(token, ".tok").text for token in tokens[1:]) == TEXT
    rows = section.select(".bytes tbody tr")
    assert [int(row.select("td")[2].text) for row in rows] == list(run.tokens)
    assert exact(float(run["loss"])) == one(section, ".target-note .num").text
    guesses = section.select("#guesses td a.num")
    for (token, p), link in zip(run.top(5), guesses, strict=False):
        assert (address_of(link), link.text) == (f"probs[{run.n_pos - 1},{token}]", numbers.percent(p))
    assert address_of(guesses[-1]).startswith("calc(1-probs[")
    rest = 1 - sum(p for _, p in run.top(5))
    assert float(run[address_of(guesses[-1])]) == pytest.approx(rest, abs=1e-9)
    assert one(page, "#ask [name=target]")["value"] == ""


def test_the_default_number_is_the_probability_of_the_target(client: TestClient, run: Run):
    title = soup(client, "/explore").title
    assert title is not None and title.text.startswith(f"probs[{run.n_pos - 1},{run.target}] = ")


def test_a_guess_becomes_the_target(client: TestClient, run: Run):
    second = run.top(2)[1][0]
    link = soup(client, "/explore").select("#guesses th a")[1]
    page = soup(client, str(link["href"]))
    assert page.title is not None and page.title.text.startswith(f"probs[{run.n_pos - 1},{second}] = ")
    assert one(page, "#guesses th a[aria-current]").text == link.text
    loss = load("embedded").run(TEXT, run.model.target_name(second))["loss"]
    assert one(page, ".target-note .num").text == exact(float(loss))


def test_a_target_that_is_not_likely_is_listed_too(client: TestClient):
    direct = load("embedded").run(TEXT, "?")
    page = soup(client, "/explore?target=%3F")
    last = page.select("#guesses tbody tr")[-2]
    assert one(last, "a[aria-current]").text == "?"
    assert one(last, "td a.num").text == numbers.percent(float(direct[f"probs[{direct.n_pos - 1},{direct.target}]"]))
    rest = address_of(page.select("#guesses td a.num")[-1])
    assert f"-probs[{direct.n_pos - 1},{direct.target}]" in rest


def test_the_loss_over_the_sentence(client: TestClient):
    page = soup(client, "/explore?target=sequence")
    loss = load("embedded").run(TEXT, "sequence")["loss"]
    assert one(page, ".target-note .num").text == exact(float(loss))
    assert one(page, "#ask [name=target]")["value"] == "sequence"


@pytest.mark.parametrize(
    ("at", "marked"),
    [
        ("blocks.1.attn.pattern[0,9,4]", {4: "key", 9: "query"}), ("blocks.1.attn.pattern[0,4,4]", {4: "query key"}),
        ("logits[3,17]", {3: ""}), ("loss", {}), ("W_E[1,2]", {}), ("calc(logits[3,1]-logits[3,2])", {}),
    ],
)  # fmt: skip
def test_positions_of_the_selected_number_are_marked(client: TestClient, at: str, marked: dict[int, str]):
    tokens = soup(client, f"/explore?at={at}").select("#tokens a")
    found = {n: token for n, token in enumerate(tokens) if token.get("aria-current")}
    assert {n: " ".join(role.text for role in token.select(".role")) for n, token in found.items()} == marked


@pytest.mark.parametrize(
    "at",
    [
        "loss", "tokens[3]", "tokens", "W_pos", "blocks.1.attn.qk", "blocks.1.attn.qk[1,:,:]", "logits[3,:]",
        "blocks.0.ln1.scale[2]", "blocks.1.attn.W_O[1,2,3]", "blocks.0.attn.scores[0,1,5]", "W_U[3,5]",
        "calc(exp(logits[3,1])/2)", "blocks.1.mlp.W_in[:,3]", "blocks.1.attn.result[4,1,:]", "log_probs[3,4]",
    ],
)  # fmt: skip
def test_every_kind_of_address_has_a_page(client: TestClient, at: str):
    page = soup(client, f"/explore?at={at}")
    for zone in ("map", "values", "why"):
        assert one(page, f"#zones #{zone}")
    assert at in one(page, "#zones").text


def test_htmx_gets_the_zones_and_what_changes_beside_them(client: TestClient):
    whole = soup(client, "/explore?at=logits[3,17]")
    answer = client.get("/explore?at=logits[3,17]", headers=ZONES)
    part = BeautifulSoup(answer.text, "html.parser")
    assert [tag.get("id") or tag.name for tag in part.find_all(True, recursive=False)] == [
        "title", "zones", "tokens", "go", "set-note", "notice",
    ]  # fmt: skip
    assert part.title is not None and whole.title is not None and part.title.text == whole.title.text
    for name in ("tokens", "go", "set-note", "notice"):
        assert one(part, f"#{name}")["data-hx-swap-oob"] == "true"
    assert normal(one(part, "#zones")) == normal(one(whole, "#zones"))


def normal(tag: Tag) -> str:
    """All words and attributes in order: two parsers may set white space between them in different ways."""
    words = [" ".join(f"{k}={v}" for k, v in sorted(found.attrs.items())) for found in tag.find_all(True)]
    return " ".join([*words, *tag.stripped_strings])


@pytest.mark.parametrize("zone", ["values", "why"])
def test_htmx_gets_one_zone(client: TestClient, zone: str):
    answer = client.get("/explore?at=logits[3,17]", headers={"HX-Request": "true", "HX-Target": zone})
    part = BeautifulSoup(answer.text, "html.parser")
    assert one(part, f"#{zone}") and not part.select("#zones, html, #tokens")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"HX-Request": "true"},
        {"HX-Request": "true", "HX-Target": "elsewhere"},
        {**ZONES, "HX-History-Restore-Request": "true"},
    ],
)
def test_everything_else_is_a_whole_page_and_caches_can_tell(client: TestClient, headers: dict[str, str]):
    answer = client.get("/explore", headers=headers)
    assert answer.text.startswith("<!doctype html>")
    assert {"HX-Request", "HX-Target"} <= set(re.split(r",\s*", answer.headers["Vary"]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "🦩 émigré",
        "a\tb\nc",
        "<b>&amp;</b>",
        "<|endoftext|>",
        "\x01\x7f",
        "שלום",
        "\n\nleading lines",
        "é" * 60,
    ],
)
def test_any_text_runs_and_comes_back_in_the_form(client: TestClient, text: str):
    answer = client.get("/explore", params={"text": text})
    assert answer.status_code == 200
    source = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", answer.text, re.DOTALL)
    assert source is not None and html.unescape(source[1]) == text
    page = BeautifulSoup(answer.text, "lxml")
    hidden = one(page, "#go input[name=text]")
    assert hidden["value"] == text or not text.isprintable()


def test_without_the_start_token(client: TestClient):
    page = soup(client, "/explore?text=The+dog&bos=0")
    assert len(page.select("#tokens a")) == len(load("embedded").encode("The dog", bos=False))
    assert one(page, "#ask [name=bos]").has_attr("checked")
    assert one(page, "#go input[name=bos]")["value"] == "0"


def test_a_long_text_has_buttons_and_stays_small(client: TestClient):
    answer = client.get("/explore", params={"text": "The dog and the cat went to the park. " * 20})
    assert answer.status_code == 200 and len(answer.content) < 250_000
    page = BeautifulSoup(answer.text, "lxml")
    assert page.select("#tokens button[form=go]") and not page.select("#tokens a")


def test_the_model_menu_leads_to_every_model(client: TestClient):
    page = soup(client, "/explore?text=The+dog")
    links = {link.text.split()[0]: str(link["href"]) for link in page.select("#models li a")}
    assert set(links) == {"embedded", "toy"}
    toy = soup(client, links["toy"])
    assert one(toy, "#ask textarea").text.strip() == TOY
    assert one(toy, "#models [aria-current]").text.startswith("toy")
    assert one(toy, "#ask input[name=model]")["value"] == "toy"


def test_the_first_page_is_small(client: TestClient):
    assert len(client.get("/explore").content) <= 120_000


def test_the_first_page_of_a_model_with_twelve_blocks_of_twelve_heads_is_small(tmp_path: Path):
    directory = save_checkpoint(tmp_path / "twelve", n_layer=12, n_head=12, d_model=48)
    client = TestClient(create_app(AppSettings(model=str(directory))))
    answer = client.get("/explore")
    assert answer.status_code == 200 and len(answer.content) <= 120_000


def test_a_page_of_another_app_shows_the_same(client: TestClient):
    url = "/explore?text=The+dog&at=blocks.1.attn.pattern[0,1,1]&trail=loss~probs[2,5]"
    other = TestClient(create_app(AppSettings()))
    assert without_menu(client.get(url).text) == without_menu(other.get(url).text)


def without_menu(html: str) -> str:
    """A page without its menu of models, which says what is in this server's memory."""
    page = BeautifulSoup(html, "lxml")
    one(page, "#models").decompose()
    return str(page)
