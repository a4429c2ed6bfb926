"""Pages for frames: what is in them stays in them, keeps its look and its settings, and errors stand alone."""

from __future__ import annotations

from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.parts.table import PARTS
from model.address.parser import parse

LOOK = {"theme": "dark", "accent": "teal", "hide": "trail,notes"}
NUMBERS = {
    "why": [
        "logits[14,5]",
        "blocks.1.attn.q[14,1,3].grad",
        "loss.step(1)",
        "calc(logits[14,5]-logits[14,6])",
        "W_E[7,3]",
    ],
    "values": ["blocks.1.attn.pattern[1,14,2]", "blocks.1.attn.pattern[1,:,:]", "logits[14,5]", "loss"],
}
PAGES = [(name, at) for name, ats in NUMBERS.items() for at in ats]
QUICK = sorted(set(PARTS) - {"tiny", "cache", "paragraph", "math_learn", "follow"})
HTMX = {"HX-Request": "true"}


def soup(client: TestClient, path: str, params: dict[str, str], **headers: str) -> BeautifulSoup:
    answer = client.get(path, params=params, headers=headers)
    assert answer.status_code == 200, answer.text[:300]
    return BeautifulSoup(answer.text, "lxml")


def leaves(tag: Tag) -> bool:
    return tag.get("target") in ("_blank", "_top")


def check_stays(page: BeautifulSoup, path: str) -> int:
    """Every link and form leads to the same page in the same look, or says that it opens a window of its own."""
    inside = 0
    for link in page.select("a[href]"):
        url = urlsplit(urljoin(f"http://x{path}", str(link["href"])))
        if leaves(link) or "download" in link.attrs:
            continue
        if link.find_parent(class_="own"):  # for a lesson around the part; an embed does not show it
            continue
        assert url.path == path, link
        given = parse_qs(url.query)
        assert {name: given[name][0] for name in LOOK} == LOOK, link
        inside += 1
    for form in page.select("form"):
        if leaves(form):
            continue
        assert urlsplit(urljoin(f"http://x{path}", str(form["action"]))).path == path, form
        sent = {field["name"]: field.get("value") for field in form.select("input[type=hidden]")}
        assert {name: sent.get(name) for name in LOOK} == LOOK, form
    return inside


@pytest.mark.parametrize(("name", "at"), PAGES)
def test_an_explanation_stays_in_its_frame(client: TestClient, name: str, at: str) -> None:
    page = soup(client, f"/embed/{name}", {"at": at, **LOOK})
    assert check_stays(page, f"/embed/{name}") > 3
    assert not page.select("nav.pages, .menu, footer.foot, style, [style]")
    assert page.html["data-theme"] == "dark"
    back = page.select_one(".back a.wordmark")
    assert back["target"] == "_blank" and urlsplit(back["href"]).path == "/explore"
    assert parse_qs(urlsplit(back["href"]).query)["at"] == [at] and "theme=" not in back["href"]


def test_following_inputs_stays_down_to_a_learned_weight(client: TestClient) -> None:
    """By the links alone, the trail growing, from the loss to a row of the embedding table."""
    url, seen = "/embed/why?at=loss&theme=dark&accent=teal&hide=notes", []
    for wanted in ("loss_per_token[", "probs[", "logits[", "W_E["):
        page = BeautifulSoup(client.get(url).text, "lxml")
        links = [a["href"] for a in page.select("#why a[href], #why button[name=at]") if a.name == "a"]
        url = next(link for link in links if parse_qs(urlsplit(link).query).get("at", [""])[0].startswith(wanted))
        seen.append(urlsplit(url).path)
    assert set(seen) == {"/embed/why"} and parse_qs(urlsplit(url).query)["accent"] == ["teal"]
    last = BeautifulSoup(client.get(url).text, "lxml")
    assert [step.get_text().split()[0] for step in last.select(".trail li")][:1] == ["loss"]


@pytest.mark.parametrize("name", QUICK)
def test_a_live_part_stays_in_its_frame(client: TestClient, name: str) -> None:
    page = soup(client, f"/embed/{name}", LOOK)
    check_stays(page, f"/embed/{name}")
    number = page.select_one("a.num[href]:not([target])")
    if number is None:
        return
    asked = parse_qs(urlsplit(number["href"]).query)
    chosen = soup(client, f"/embed/{name}", {k: v[0] for k, v in asked.items()})
    assert chosen.select_one("#why .addr").get_text() == str(parse(asked["at"][0]))
    assert chosen.select_one(f"#live-{name}")
    check_stays(chosen, f"/embed/{name}")


def test_settings_survive_a_click_and_a_fragment_knows_where_it_stands(client: TestClient) -> None:
    query = {"temperature": "0.5", **LOOK}
    number = soup(client, "/embed/temperature", query).select_one(".live-part a.num")
    assert parse_qs(urlsplit(number["href"]).query)["temperature"] == ["0.5"]
    in_frame = soup(client, "/embed/temperature", query, **HTMX, **{"HX-Current-URL": "http://x/embed/temperature"})
    assert urlsplit(in_frame.select_one("a.num")["href"]).path == "/embed/temperature"
    in_lesson = soup(client, "/embed/temperature", query, **HTMX, **{"HX-Current-URL": "http://x/lessons/transformer"})
    assert urlsplit(in_lesson.select_one("a.num")["href"]).path == "/explore"


@pytest.mark.parametrize("zone", ["zones", "values", "why"])
def test_fragments_of_a_table(client: TestClient, zone: str) -> None:
    page = soup(client, "/embed/values", {"at": "probs[3,5]"}, **HTMX, **{"HX-Target": zone})
    assert page.select_one(f"#{zone}") and not page.select("link, script")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/embed/why?at=nothing[3]", "nothing"),
        ("/embed/values?at=probs[999,1]", "999"),
        ("/embed/why?theme=pink", "pink"),
        ("/embed/temperature?accent=zebra", "zebra"),
        ("/embed/temperature?hide=stages", "stages"),
        ("/embed/nothing", "Nothing lies"),
    ],
)
def test_errors_stand_alone(client: TestClient, path: str, says: str) -> None:
    answer = client.get(path + ("&" if "?" in path else "?") + "theme=dark" * ("theme" not in path))
    assert answer.status_code in (400, 404)
    page = BeautifulSoup(answer.text, "lxml")
    assert says in page.select_one("#fault").get_text()
    assert not page.select("nav.pages, .menu, .foot")
    assert "frame-ancestors *" in answer.headers["content-security-policy"]
    assert page.html.get("data-theme") == ("dark" if "theme=pink" not in path else None)


def test_a_table_of_a_long_text_keeps_its_look_in_buttons(client: TestClient) -> None:
    page = soup(client, "/embed/values", {"at": "probs[3,5]", "text": "The dog ran. " * 40, **LOOK})
    assert page.select("#values button.num")
    check_stays(page, "/embed/values")
