"""What the tests of both lessons share: sentences and models to try, how a claim is read, what every page must be."""

from __future__ import annotations

import time
from urllib.parse import parse_qs, urlsplit

from bs4 import BeautifulSoup, Tag
from httpx2 import Response
from starlette.testclient import TestClient

from app.render.tokens import token_html
from model import Run
from tests.app.conftest import TEXT

SENTENCES = {
    "default": {"text": TEXT, "target": " Mary"},
    "short": {"text": "Hi"},
    "long": {"text": "Once there was a dog that lived near the sea. " * 4 + "It liked the", "target": " sun"},
    "emoji": {"text": "I like 🙂 and 🐙, and you like 🙃"},
    "not english": {"text": "Der Hund sah die Katze und lief nach Hause", "target": "sequence"},
    "chinese": {"text": "我喜欢猫"},
    "unlikely": {"text": TEXT, "target": "id:5"},
    "empty": {"text": ""},
    "no start token": {"text": "The cat and the dog", "bos": "0"},
}

MODELS = ("embedded", "random")

CASES = {
    **{f"{model}: {name}": {**query, "model": model} for model in MODELS for name, query in SENTENCES.items()},
    "toy": {"model": "toy", "text": "the cat sat on the"},
    "toy, one word": {"model": "toy", "text": "the", "bos": "0"},
}

MOST_BYTES = 150_000  # of the first HTML


def soup(client: TestClient, path: str, query: dict[str, str] | None = None) -> BeautifulSoup:
    answer = client.get(path, params=query or {})
    assert answer.status_code == 200, answer.text[:500]
    return BeautifulSoup(answer.text, "lxml")


def claims(page: BeautifulSoup) -> dict[str, Tag]:
    """The pieces of prose that say something of the run, by name."""
    return {str(claim["data-claim"]): claim for claim in page.select("[data-claim]")}


# -- what stands in a claim


def addresses(claim: Tag) -> list[str]:
    return [
        parse_qs(urlsplit(str(a["href"])).query)["at"][0] if a.name == "a" else str(a["value"])
        for a in claim.select(".num")
    ]


def values(run: Run, claim: Tag) -> list[float]:
    """Its numbers, read from the run."""
    return [float(run.values(at)) for at in addresses(claim)]


def words(claim: Tag) -> str:
    return " ".join(claim.get_text().split())


def tokens(claim: Tag) -> list[str]:
    return [token.get_text() for token in claim.select(".tok")]


def shown(run: Run, token: int) -> str:
    """A token as a page shows it, in plain text."""
    return BeautifulSoup(f"<p>{token_html(run.model.tokenizer, token)}</p>", "lxml").get_text()


# -- what every lesson's page must be


def check_headings(page: BeautifulSoup) -> None:
    """Ids are unique, links inside the page find theirs, every heading is in the contents."""
    ids = [tag["id"] for tag in page.select("[id]")]
    assert len(ids) == len(set(ids))
    assert all(heading.get("id") for heading in page.select("article > section > h2, article > section > h3"))
    assert {a["href"][1:] for a in page.select('a[href^="#"]')} <= set(ids)
    assert {a["href"][1:] for a in page.select(".toc a")} >= {h["id"] for h in page.select("article > section > h3")}


PATIENCE = 60.0  # seconds that a file may take whose learning steps are still being taken


def answer_once_done(client: TestClient, url: str) -> Response:
    """The answer; of a file that is not ready yet, the one that comes when it is asked for again as it says."""
    until = time.monotonic() + PATIENCE
    while "Try again in a few seconds" in (answer := client.get(url)).text and time.monotonic() < until:
        time.sleep(0.5)
    return answer


def check_links(client: TestClient, page: BeautifulSoup, every: int) -> None:
    """Other pages, all live parts, and one in so many of the prose's numbers."""
    others = {str(a["href"]) for a in page.select("a[href^='/']:not(.num)") if not a["href"].startswith("/explore?")}
    numbers = [str(a["href"]) for a in page.select("article > section > p a.num")][::every]
    assert others and numbers
    for url in [*others, *numbers]:
        assert answer_once_done(client, url).status_code == 200, url


def check_boosted(page: BeautifulSoup) -> None:
    """The article's links are swapped into #why: whatever is no number must say that it is not meant."""
    for link in page.select("article a[href^='/']"):
        own = link.get("data-hx-boost") == "false" or link.find_parent(attrs={"data-hx-boost": "false"})
        in_part = link.get("data-hx-target", "").startswith("#live-")
        assert "at=" in link["href"] or own or in_part or link.find_parent(class_="later"), link


def check_places(page: BeautifulSoup, parts: list[str], now: list[str]) -> None:
    """All parts stand in the page, those in `now` at once, the others as places that load later, with a link."""
    assert [part["id"].removeprefix("live-") for part in page.select(".live-part")] == parts
    later = page.select(".live-part.later")
    assert [part["id"].removeprefix("live-") for part in later] == [name for name in parts if name not in now]
    for part in later:
        assert part["data-hx-trigger"] == "revealed" and part.select_one("a")["href"] == part["data-hx-get"]


def check_whole(page: BeautifulSoup, parts: list[str]) -> None:
    """With `all=1` every part is there at once, and still no id twice."""
    assert page.select(".later") == []
    assert [part["id"].removeprefix("live-") for part in page.select(".live-part")] == parts
    ids = [tag["id"] for tag in page.select("[id]")]
    assert len(ids) == len(set(ids))
