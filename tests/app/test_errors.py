"""Every kind of bad input: a 4xx that names the part and shows a way out, as JSON, as a page, as a fragment."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from model import load

TOY = {"model": "toy", "text": "the cat sat"}
HTMX = {"HX-Request": "true", "HX-Target": "zones"}

# parameters of the explorer -> status, the part that is named, words that the message or hint must hold
BAD: dict[str, tuple[dict[str, str], int, str, tuple[str, ...]]] = {
    "unknown model": ({"model": "nobody"}, 404, "model", ("nobody", "embedded", "toy")),
    "a path as model": ({"model": "../toy"}, 404, "model", ("../toy",)),
    "no text and no start token": ({**TOY, "text": "", "bos": "0"}, 400, "text", ("empty",)),
    "a word that a small model lacks": ({**TOY, "text": "the whale"}, 400, "text", ("whale", "cat")),
    "text over the context": ({**TOY, "text": "the" + " cat" * 20}, 400, "text", ("22 tokens", "8")),
    "text far over it": ({"text": "word " * 9000}, 400, "text", ("45,000 characters", "256")),
    "a target of two tokens": ({**TOY, "target": "the cat"}, 400, "target", ("the", "cat")),
    "an unknown id as target": ({**TOY, "target": "id:99"}, 400, "target", ("99", "7")),
    "a target that is no word": ({**TOY, "target": "whale"}, 400, "text", ("whale",)),
    "the sequence of one token": ({**TOY, "text": "", "target": "sequence"}, 400, "target", ("two tokens",)),
    "a target of many letters": ({**TOY, "target": "x" * 201}, 400, "target", ("200",)),
    "an address that does not parse": ({**TOY, "at": "logits[3,"}, 400, "at", ("logits[3,", "as in")),
    "an unknown site": ({**TOY, "at": "blocks.0.attn.w[1]"}, 404, "at", ("blocks.0.attn.w", "mean")),
    "a short name's slip": ({**TOY, "at": "patern[0,0,0]"}, 404, "at", ("patern", "blocks.0.attn.pattern?")),
    "a name like no other": ({**TOY, "at": "foo"}, 404, "at", ("foo", "blocks.0.attn.q, ln_final.out or logits")),
    "an unknown optimizer": ({**TOY, "optimizer": "lion"}, 400, "optimizer", ("lion", "“sgd” or “adamw”")),
    "a block that is not there": ({**TOY, "at": "blocks.7.attn.q[0,0,0]"}, 404, "at", ("blocks.7", "0")),
    "too many indices": ({**TOY, "at": "logits[3,1,2]"}, 400, "at", ("pos, d_vocab", "logits[3,7]")),
    "an index out of range": ({**TOY, "at": "logits[4,0]"}, 400, "at", ("4", "0 to 3", "logits[3,7]")),
    "a negative index": ({**TOY, "at": "logits[-1,0]"}, 400, "at", ("counted from 0",)),
    "a malformed slice": ({**TOY, "at": "logits[0:1:2,0]"}, 400, "at", ("does not parse",)),
    "an empty slice": ({**TOY, "at": "logits[2:2,0]"}, 400, "at", ("2:2", "empty")),
    "an expression that is many numbers": ({**TOY, "at": "calc(logits[0,:]+1)"}, 400, "at", ("8 numbers",)),
    "a very long address": ({**TOY, "at": "calc(" + "1+" * 3000 + "1)"}, 400, "at", ("4000",)),
    "a deep address": ({**TOY, "at": "calc(" + "(" * 200 + "1" + ")" * 200 + ")"}, 400, "at", ("deep",)),
    "a start token of neither kind": ({**TOY, "bos": "perhaps"}, 400, "bos", ("perhaps", "bos=0")),
    "a negative row": ({**TOY, "row": "-1"}, 400, "row", ("-1", "row=")),
    "a row that is no number": ({**TOY, "row": "nan"}, 400, "row", ("nan", "whole number")),
    "a column past all columns": ({**TOY, "col": "9" * 30}, 400, "col", ("col=",)),
    "an unknown order": ({**TOY, "order": "beauty"}, 400, "order", ("beauty", "size")),
    "a negative offset": ({**TOY, "offset": "-20"}, 400, "offset", ("-20", "offset=")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_page_names_the_part_and_keeps_the_input(client: TestClient, name: str):
    params, status, part, words = BAD[name]
    answer = client.get("/explore", params=params)
    assert answer.status_code == status
    page = BeautifulSoup(answer.text, "lxml")
    fault = page.select_one("main .fault")
    assert fault is not None and page.title is not None and page.h1 is not None
    for word in words:
        assert word in fault.text, fault.text
    text, target = page.select_one("#ask textarea"), page.select_one("#ask input[name=target]")
    assert text is not None and target is not None
    if "text" in params:
        assert text.text.removeprefix("\n") == params["text"]
    assert target["value"] == params.get("target", "")
    assert (page.select_one("#ask input[name=bos][checked]") is not None) == (params.get("bos") == "0")
    field = {"text": text, "target": target}.get(part)
    if field is not None:
        assert field["aria-invalid"] == "true" and field["aria-describedby"] == "fault"
    if part == "at":
        address = page.select_one("input[name=at]")
        assert address is not None and address["value"] == params["at"]


@pytest.mark.parametrize("name", BAD)
def test_htmx_gets_a_fragment_for_the_notice(client: TestClient, name: str):
    params, status, _, words = BAD[name]
    answer = client.get("/explore", params=params, headers=HTMX)
    assert answer.status_code == status
    assert "<html" not in answer.text and 'role="alert"' in answer.text and len(answer.text) < 14_000
    assert answer.headers["HX-Retarget"] == "#notice" and answer.headers["HX-Push-Url"] == "false"
    assert words[0] in BeautifulSoup(answer.text, "html.parser").text


VIEW_ONLY = {"row", "col", "order", "offset"}


@pytest.mark.parametrize("name", [name for name, (_, _, part, _) in BAD.items() if part not in VIEW_ONLY])
def test_json_names_the_part(client: TestClient, name: str):
    params, status, part, words = BAD[name]
    answer = client.get("/api/v1/explain", params={"at": "loss", **params})
    check(answer, status, part)
    told = " ".join(answer.json()["error"].values())
    for word in words:
        assert word in told


@pytest.mark.parametrize(
    ("path", "params", "status", "part"),
    [
        ("explain", TOY, 400, "at"),
        ("values", TOY, 400, "at"),
        ("explain", {**TOY, "at": "logits[0,:]"}, 400, "at"),
        ("explain", {**TOY, "at": ""}, 400, "at"),
        ("explain", {**TOY, "at": "loss", "limit": "1001"}, 400, "limit"),
        ("explain", {**TOY, "at": "loss", "limit": "-1"}, 400, "limit"),
        ("explain", {**TOY, "at": "loss", "limit": "many"}, 400, "limit"),
        ("explain", {**TOY, "at": "loss", "offset": "-1"}, 400, "offset"),
        ("explain", {**TOY, "at": "loss", "order": "beauty"}, 400, "order"),
        ("explain", {**TOY, "at": "loss", "format": "npy"}, 400, "format"),
        ("values", {**TOY, "at": "loss", "format": "xml"}, 400, "format"),
        ("values", {**TOY, "at": "nothing[0]"}, 404, "at"),
        ("run", {"model": "nobody"}, 404, "model"),
        ("heads", {"model": "nobody"}, 404, "model"),
        ("nothing", {}, 404, ""),
    ],
)
def test_json_of_each_route(client: TestClient, path: str, params: dict[str, str], status: int, part: str):
    check(client.get(f"/api/v1/{path}", params=params), status, part)


def check(answer: Any, status: int, part: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "hint", "part"}
    assert error["code"] and error["message"] and error["part"] == part
    assert "Traceback" not in answer.text


def test_a_target_of_several_tokens_offers_ones_that_work(client: TestClient):
    answer = client.get("/explore", params={"text": "When Mary and John", "target": "Mary went home"})
    page = BeautifulSoup(answer.text, "lxml")
    offers = [str(link["href"]) for link in page.select(".fault a")]
    assert offers
    for url in offers:
        assert client.get(url).status_code == 200


def test_a_word_without_its_space_is_offered_with_it(client: TestClient):
    tokenizer = load("embedded").tokenizer
    texts = (tokenizer.text(token) or "" for token in range(tokenizer.n_vocab))
    word = next(t[1:] for t in texts if t[:1] == " " and t[1:].isalpha() and len(tokenizer.encode(t[1:])) > 1)
    page = BeautifulSoup(client.get("/explore", params={"target": word}).text, "lxml")
    first = page.select(".fault a")[0]
    assert first.text == f"“ {word}”" and f"target=%20{word}" in str(first["href"])
    assert client.get(str(first["href"])).status_code == 200


@pytest.mark.parametrize("path", ["/nowhere", "/about?model=nobody", "/about/heads?model=nobody"])
def test_other_pages_tell_too(client: TestClient, path: str):
    answer = client.get(path)
    assert answer.status_code == 404
    page = BeautifulSoup(answer.text, "lxml")
    assert page.select_one(".fault") is not None and page.select_one("nav.pages") is not None


def test_a_reader_cannot_put_markup_into_a_message(client: TestClient):
    answer = client.get("/explore", params={"at": "<b>x</b>", "target": '"><i>', "text": "</textarea><script>"})
    page = BeautifulSoup(answer.text, "lxml")
    assert not page.find_all(["b", "i"], string=["x"]) and len(page.find_all("script")) == 3


def test_a_trail_keeps_what_names_something(client: TestClient):
    answer = client.get("/explore", params={**TOY, "at": "loss", "trail": "garbage~probs[3,1]~logits[~nothing[99]"})
    assert answer.status_code == 200
    steps = BeautifulSoup(answer.text, "lxml").select(".trail a")
    assert [step["href"].count("at=probs[3,1]") for step in steps] == [1]


def test_generate_refuses_what_other_pages_refuse(client: TestClient):
    for path in ("/explore", "/generate"):
        answer = client.get(path, params={"bos": "x"})
        assert answer.status_code == 400 and "bos=0" in answer.text


@pytest.mark.parametrize("content", ["{", "[1]", "", '"text"', b"\xff\xfe", b'{"text": "\xff"}'])
def test_a_body_that_is_no_object_comes_with_an_example(client: TestClient, content: str | bytes):
    answer = client.post("/api/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["part"] == "body"
    assert "body of the request" in error["message"] and "steps" in error["hint"]


def test_a_hint_is_of_the_page_that_was_asked(client: TestClient):
    """Settings of different pages may share a name, as the number of tokens and a live part's temperature do."""
    made, part = (client.get(path, params={"temperature": "warm"}) for path in ("/generate", "/embed/temperature"))
    assert made.status_code == part.status_code == 400
    assert "such as 0.8" in made.text and "such as 0.8" not in part.text
