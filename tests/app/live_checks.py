"""What must hold of every live part, whichever lesson it stands in."""

from __future__ import annotations

import time
from html import unescape

from bs4 import BeautifulSoup, Tag
from starlette.testclient import TestClient

from app.parts.table import PARTS
from tests.app.shown_numbers import Reader

HTMX = {"HX-Request": "true", "HX-Target": "live"}

# Runs that every part must be able to show: another model, a short text, an empty one, signs that are no ASCII.
OTHER_RUNS = ["model=toy&text=the cat sat&bos=0", "text=Hi", "text=&target=id:3", "text=Ünïcödé 🙂 x", "text=我喜欢猫"]

MOST_BYTES = 120_000


def finished(client: TestClient, url: str, headers: dict[str, str] | None = None) -> str:
    """The answer once what it waits for is done."""
    for _ in range(40):
        answer = client.get(url, headers=headers or {})
        assert answer.status_code == 200, url
        if "<progress" not in answer.text:
            return answer.text
        time.sleep(0.5)
    raise AssertionError(f"{url} is not done after twenty seconds")


def section_of(html: str, name: str) -> Tag:
    found = BeautifulSoup(html, "lxml").select_one(f"section#live-{name}")
    assert found is not None
    return found


def check_alone(client: TestClient, reader: Reader, name: str, query: str, most: int = MOST_BYTES) -> None:
    """Its own page: its title, true numbers that open here or in the explorer, the way back to its lesson."""
    html = finished(client, f"/embed/{name}?{query}")
    section = section_of(html, name)
    assert section.select_one("h3").get_text() == PARTS[name].title
    assert reader.faults(html) == [], query
    assert len(html) <= most
    for number in section.select("a.num"):
        assert number["href"].startswith((f"/embed/{name}?", "/explore?")), number
    place = PARTS[name].home.partition("#")[2]
    links = BeautifulSoup(html, "lxml").select("a[href^='/lessons/']")
    assert any(link["href"].endswith(f"#{place}") for link in links)


def check_links_and_form(client: TestClient, name: str) -> None:
    """Links lead somewhere; the form sends each setting once, and sent as it stands it changes nothing."""
    part = section_of(finished(client, f"/embed/{name}?"), name)
    links = [a["href"] for a in part.select("a:not(.num)") if a["href"].startswith("/")]
    for url in [*links[:4], *links[-2:], *[a["href"] for a in part.select("a.num")[:2]]]:
        assert client.get(url).status_code == 200, url
    form = part.select_one("form.controls")
    if form is None:
        return
    fields = [(f["name"], f.get("value") or "") for f in form.select("input[name]")]
    fields += [(f["name"], f.select_one("[selected]")["value"]) for f in form.select("select")]
    assert len(fields) == len({field for field, _ in fields}), "a setting is sent twice"
    assert form["action"] == f"/embed/{name}" and form.select_one("button") is not None
    for slider in form.select("[data-pair]"):
        assert slider["data-pair"] in dict(fields) and not slider.get("name")
    again = client.get(form["action"], params=fields)
    same = BeautifulSoup(again.text, "lxml").select_one(f"#live-{name}-out")
    assert same.get_text() == part.select_one(f"#live-{name}-out").get_text()


def check_fragment(client: TestClient, reader: Reader, name: str, query: str) -> None:
    """For HTMX the section alone, without script or style of its own, its numbers true."""
    html = finished(client, f"/embed/{name}?{query}", HTMX)
    assert html.lstrip().startswith(f'<section class="live-part" id="live-{name}"')
    assert "<html" not in html and "<script" not in html and "style=" not in html
    assert reader.faults(html) == []


def beyond(name: str) -> tuple[str, str]:
    """A setting of a part just past its bounds, and what the answer must say."""
    for field, schema in PARTS[name].settings.model_json_schema()["properties"].items():
        for kind in (schema, *schema.get("anyOf", [])):
            if "maximum" in kind:
                return f"{field}={kind['maximum'] + 1:.10g}", f"{field} is {kind['maximum'] + 1:.10g}"
            if kind.get("type") == "integer":  # bounded by the run
                return f"{field}=99999", "99999"
    raise AssertionError(f"say in WRONG which setting of {name} can be wrong")


def check_wrong(client: TestClient, name: str, query: str, says: str) -> None:
    """A setting out of range is named."""
    answer = client.get(f"/embed/{name}?{query}")
    assert answer.status_code == 400
    assert says in unescape(BeautifulSoup(answer.text, "lxml").select_one("#fault").get_text())


# -- no number is decoration


def bare_numbers(html: str, name: str) -> list[str]:
    """Cells of tables that hold a number which neither opens nor says that it was measured; what names a row aside."""
    section = section_of(html, name)
    for quiet in section.select(".num, .measured, .i, .tok, code, svg, a, thead, .vh, form"):
        quiet.decompose()
    cells = [cell.get_text(" ", strip=True) for row in section.select("tbody tr") for cell in row.select("td")[1:]]
    return [text for text in cells if any(sign in text for sign in (".", "%", "×10"))]
