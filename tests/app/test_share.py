"""Sharing: the page of it, oEmbed by its specification, cards by OpenGraph, and pictures of real numbers."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import numpy as np
import pytest
from bs4 import BeautifulSoup
from PIL import Image
from starlette.testclient import TestClient

from app.features.lessons.routes import LESSONS
from app.features.share.card import explanation_card
from app.features.share.card_picture import NEG, POS, png
from app.main import create_app
from app.settings import AppSettings
from app.stores.cards import CardStore
from model import load

HOME = "http://testserver"
AT = "logits[14,5]"
FRAMED = {
    "/explore?at=logits[14,5]": "/embed/why",
    "/explore": "/embed/why",
    "/": "/embed/why",
    "/embed/values?at=probs[3,5]": "/embed/values",
    "/embed/temperature?temperature=0.5": "/embed/temperature",
    "/lessons/math#dot": "/embed/math_dot",
    "/lessons/transformer": "/embed/guess",
}


def frame_of(html: str) -> dict[str, str]:
    frame = BeautifulSoup(html, "lxml").iframe
    assert frame is not None
    return {name: str(value) for name, value in frame.attrs.items()}


# -- the page of sharing


@pytest.mark.parametrize("url", FRAMED)
def test_the_page_gives_link_frame_and_preview(client: TestClient, url: str) -> None:
    answer = client.get(
        "/share", params={"url": url, "theme": "dark", "accent": "teal", "width": "500", "height": "400"}
    )
    page = BeautifulSoup(answer.text, "lxml")
    assert answer.status_code == 200
    frame = frame_of(page.select_one("#share-html").get_text().strip())
    assert frame["loading"] == "lazy" and frame["title"] and (frame["width"], frame["height"]) == ("500", "400")
    where = urlsplit(frame["src"])
    assert f"{where.scheme}://{where.netloc}" == HOME and where.path == FRAMED[url]
    assert parse_qs(where.query)["theme"] == ["dark"] and parse_qs(where.query)["accent"] == ["teal"]
    assert client.get(frame["src"]).status_code == 200
    preview = page.select_one(".share-preview iframe")
    assert HOME + preview["src"] == frame["src"] and preview["title"]
    link = page.select_one("#share-link")["value"]
    assert client.get(link).status_code == 200


def test_the_form_without_javascript_changes_the_snippet(client: TestClient) -> None:
    page = BeautifulSoup(client.get("/share", params={"url": "/embed/cut"}).text, "lxml")
    form = page.select_one("form.share-look")
    assert {box["value"] for box in form.select("input[name=hide]")} >= {"seed", "top_k", "temperature", "controls"}
    url = form.select_one("input[name=url]")["value"]
    query = [("url", url), ("theme", "light"), ("accent", ""), ("colour", "abc"), ("hide", "seed"), ("hide", "top_k")]
    again = BeautifulSoup(client.get(form["action"], params=query).text, "lxml")
    asked = parse_qs(urlsplit(frame_of(again.select_one("#share-html").get_text().strip())["src"]).query)
    assert asked["accent"] == ["aabbcc"] and asked["hide"] == ["top_k,seed"] and asked["theme"] == ["light"]
    assert len(again.select("input[name=hide][checked]")) == 2


def test_a_wrong_field_is_said_beside_it(client: TestClient) -> None:
    query = {"url": "/embed/cut", "colour": "zebra", "width": "3", "height": "x", "theme": "dark"}
    page = BeautifulSoup(client.get("/share", params=query).text, "lxml")
    for name in ("colour", "width", "height"):
        field = page.select_one(f"input[name={name}]")
        assert field["aria-invalid"] == "true" and field["value"] == query[name]
        assert page.select_one(f"#{field['aria-describedby']}").get_text()
    assert "theme=dark" in page.select_one("#share-html").get_text()


def test_where_framing_is_switched_off_only_the_link_is_given() -> None:
    client = TestClient(create_app(AppSettings(model="toy", frame_ancestors="'none'")))
    page = BeautifulSoup(client.get("/share", params={"url": "/explore"}).text, "lxml")
    assert page.select_one("#share-link") and not page.select("iframe, #share-html, .share-look")


def test_for_htmx_only_the_inside(client: TestClient) -> None:
    answer = client.get("/share", params={"url": "/explore"}, headers={"HX-Request": "true"})
    assert "<html" not in answer.text and 'method="dialog"' in answer.text


@pytest.mark.parametrize(
    "url", ["/about", "/nowhere", "http://example.org/explore", "//example.org/explore", "javascript:x"]
)
def test_only_own_pages_are_shared(client: TestClient, url: str) -> None:
    assert client.get("/share", params={"url": url}).status_code == 404
    assert client.get("/oembed", params={"url": url}).status_code == 404


@pytest.mark.parametrize("path", ["/explore", "/embed/temperature"])
def test_links_to_it(client: TestClient, path: str) -> None:
    page = BeautifulSoup(client.get(path).text, "lxml")
    links = page.select("a[data-share], .back a[href^='/share']")
    assert links and all(client.get(link["href"]).status_code == 200 for link in links)


def test_the_script_and_its_hash(client: TestClient) -> None:
    page = BeautifulSoup(client.get("/share", params={"url": "/explore"}).text, "lxml")
    script = BeautifulSoup(page.select_one("#share-script").get_text(), "lxml").script
    answer = client.get(script["src"])
    assert script["crossorigin"] == "anonymous"
    assert script["integrity"] == "sha384-" + base64.b64encode(hashlib.sha384(answer.content).digest()).decode()
    assert "immutable" in answer.headers["cache-control"] and answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert client.get("/embed.js?v=old").headers["cache-control"] == "no-cache"
    assert len(answer.content) < 1500


# -- oEmbed 1.0


def check_oembed(found: dict[str, object], *, width: int = 10**9, height: int = 10**9) -> None:
    """Section 2.3.4: what every answer must have, what type rich must have, and all or none of a thumbnail's fields."""
    assert found["version"] == "1.0" and found["type"] == "rich"
    assert isinstance(found["html"], str) and isinstance(found["width"], int) and isinstance(found["height"], int)
    assert 0 < found["width"] <= width and 0 < found["height"] <= height
    thumbnail = [name for name in found if name.startswith("thumbnail_")]
    assert len(thumbnail) in (0, 3)
    if thumbnail:
        assert found["thumbnail_width"] <= width and found["thumbnail_height"] <= height


@pytest.mark.parametrize("url", FRAMED)
def test_oembed_of_every_kind(client: TestClient, url: str) -> None:
    answer = client.get("/oembed", params={"url": HOME + url})
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    check_oembed(found)
    frame = frame_of(found["html"])
    assert urlsplit(frame["src"]).path == FRAMED[url] and client.get(frame["src"]).status_code == 200
    picture = Image.open(io.BytesIO(client.get(found["thumbnail_url"]).content))
    assert picture.size == (found["thumbnail_width"], found["thumbnail_height"])


def test_oembed_keeps_to_the_size_asked_for(client: TestClient) -> None:
    for width, height, picture in ((700, 400, 600), (350, 200, 300), (200, 100, 0)):
        query = {"url": f"{HOME}/explore", "maxwidth": width, "maxheight": height}
        found = client.get("/oembed", params=query).json()
        check_oembed(found, width=width, height=height)
        assert found.get("thumbnail_width", 0) == picture
        frame = frame_of(found["html"])
        assert (int(frame["width"]), int(frame["height"])) == (found["width"], found["height"])
        if picture:
            assert Image.open(io.BytesIO(client.get(found["thumbnail_url"]).content)).size[0] == picture


def test_oembed_as_xml_says_the_same(client: TestClient) -> None:
    query = {"url": f"{HOME}/explore?text=a%01<b>%26&at=loss"}
    found = client.get("/oembed", params=query).json()
    answer = client.get("/oembed", params={**query, "format": "xml"})
    assert answer.headers["content-type"].startswith("text/xml")
    root = ElementTree.fromstring(answer.content)
    assert root.tag == "oembed"
    assert {child.tag: child.text for child in root} == {name: str(value) for name, value in found.items()}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"url": f"{HOME}/explore?at=nothing[1]"}, 404),
        ({"url": f"{HOME}/explore?model=nothing"}, 404),
        ({"url": f"{HOME}/explore?row=x"}, 404),
        ({"url": f"{HOME}/embed/temperature?temperature=x"}, 404),
        ({"url": f"{HOME}/explore", "format": "yaml"}, 501),
        ({"url": f"{HOME}/explore", "maxwidth": "0"}, 400),
        ({}, 400),
        ({"url": "http://["}, 404),
    ],
)
def test_oembed_refuses(client: TestClient, query: dict[str, str], status: int) -> None:
    assert client.get("/oembed", params=query).status_code == status


# -- what a page's head says


@pytest.mark.parametrize("path", [*FRAMED, "/explore?at=blocks.1.attn.pattern[1,:,:]"])
def test_cards_and_discovery(client: TestClient, path: str) -> None:
    page = BeautifulSoup(client.get(path).text, "lxml")
    og = {tag["property"]: tag["content"] for tag in page.select("meta[property]")}
    assert {"og:title", "og:type", "og:image", "og:url", "og:description", "og:site_name", "og:image:alt"} <= set(og)
    assert og["og:image"].startswith(f"{HOME}/card.png?") and all(og.values())
    answer = client.get(og["og:image"])
    picture = Image.open(io.BytesIO(answer.content))
    assert picture.format == "PNG" and og["og:image:type"] == answer.headers["content-type"] == "image/png"
    assert picture.size == (int(og["og:image:width"]), int(og["og:image:height"])) == (1200, 630)
    twitter = {tag["name"]: tag["content"] for tag in page.select("meta[name^=twitter]")}
    assert twitter["twitter:card"] == "summary_large_image" and twitter["twitter:image"] == og["og:image"]
    assert client.get(og["og:url"]).status_code == 200
    for form in ("json", "xml"):
        link = page.select_one(f"link[rel=alternate][type$='{form}+oembed']")
        assert client.get(link["href"]).status_code == 200 and link["title"]


def test_a_page_of_a_long_text_leaves_its_addresses_out(client: TestClient) -> None:
    text = "The dog ran to the park and the cat sat there. " * 9
    assert not BeautifulSoup(client.get("/explore", params={"text": text * 3}).text, "lxml").select("meta[property]")


# -- pictures


def colors(file: bytes) -> set[tuple[int, int, int]]:
    return {tuple(c) for c in np.unique(np.asarray(Image.open(io.BytesIO(file))).reshape(-1, 3), axis=0).tolist()}


def rgb(digits: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(digits.removeprefix("#")))


def test_a_card_shows_the_numbers_of_the_run() -> None:
    run = load("embedded").run("When Mary and John went to the store, John gave a drink to")
    card = explanation_card(run, AT)
    e = run.explain(AT, limit=10_000, order="size")
    assert float(card.big.replace("−", "-")) == pytest.approx(e.value, abs=1e-4)
    assert [bar.value for bar in card.bars[:5]] == [term.product for term in e.terms[:5]]
    assert sum(bar.value for bar in card.bars) == pytest.approx(e.total, rel=1e-9)
    assert AT in card.alt and card.big in card.alt and "Mary" in card.alt
    softmax = explanation_card(run, "probs[14,5]")
    assert sum(bar.value for bar in softmax.bars) == pytest.approx(1)


def test_a_card_says_whose_entries_a_weight_s_are() -> None:
    card = explanation_card(load("embedded").run("Mary and John"), "blocks.1.attn.W_Q[1,38,24]")
    assert card.lines[1] == "block 1, head 1, stream entry 38, head entry 24"


def test_signs_have_colours_and_the_same_card_the_same_bytes() -> None:
    model = load("embedded")
    run = model.run("When Mary and John went to the store, John gave a drink to")
    file = png(explanation_card(run, "blocks.1.attn_out[14,7]"))
    assert {rgb(POS), rgb(NEG)} <= colors(file)
    assert file == png(explanation_card(model.run(run.text), "blocks.1.attn_out[14,7]"))
    assert rgb(NEG) not in colors(png(explanation_card(run, "loss")))


@pytest.mark.parametrize("own_face", [True, False])
@pytest.mark.parametrize("text", ["", "Ünï ⟨x⟩ √2 − 3 🙂 中文\n\t\x00", "a " * 120])
def test_any_text_can_be_drawn(text: str, own_face: bool) -> None:
    run = load("embedded").run(text)
    for at in ("loss", "embed[0,3]", "blocks.1.attn.pattern[0,:,:]", "tokens[0]", "blocks.0.mlp.post[0,:]"):
        assert Image.open(io.BytesIO(png(explanation_card(run, at), own_face=own_face))).size == (1200, 630)


def test_pictures_are_cached_and_asked_for_again_cheaply(client: TestClient) -> None:
    first = client.get("/card.png", params={"at": AT})
    assert first.headers["cross-origin-resource-policy"] == "cross-origin"
    again = client.get("/card.png", params={"at": AT}, headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content


@pytest.mark.parametrize(
    ("query", "status"),
    [({"at": "no["}, 400), ({"of": "lesson/none"}, 404), ({"width": "7"}, 400), ({"model": "x"}, 404)],
)
def test_no_picture_of_nothing(client: TestClient, query: dict[str, str], status: int) -> None:
    assert client.get("/card.png", params=query).status_code == status


def test_an_unknown_card_names_its_part(client: TestClient) -> None:
    answer = client.get("/card.png", params={"of": "embed/nothing"})
    assert (
        answer.status_code == 404
        and "embed/nothing" in answer.text
        and "of=lesson/math or of=embed/guess" in answer.text
    )
    assert client.get("/card.png", params={"of": "embed/guess", "width": "300"}).status_code == 200


def test_every_lesson_has_a_picture(client: TestClient) -> None:
    for lesson in LESSONS:
        assert client.get("/card.png", params={"of": f"lesson/{lesson.name}", "width": "300"}).status_code == 200


def test_the_store_of_pictures_is_bounded() -> None:
    store, drawn = CardStore(memory=1000), []

    def draw(n: int) -> bytes:
        drawn.append(n)
        return bytes(400)

    for n in (1, 2, 1, 3, 2):
        assert len(store.get(n, lambda n=n: draw(n))) == 400
    assert drawn == [1, 2, 3, 2] and store.kept.nbytes <= 1000
    assert len(store.get("large", lambda: bytes(2000))) == 2000 and store.kept.nbytes <= 1000


def test_titles_hold_no_markup(client: TestClient) -> None:
    answer = client.get("/explore", params={"text": '"><script>alert(1)</script>', "at": "loss"})
    assert "<script>alert" not in answer.text and not re.search(r'content=""><', answer.text)
