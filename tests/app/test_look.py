"""How embeds look: accents that can be read, names of what is left out, and the stylesheet that says both."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from app.parts.table import PARTS
from app.request import look
from app.request.look import ACCENTS, Look, look_of
from model.errors import SettingError
from tests.conftest import ROOT

PAIR = re.compile(r"--(\w+): light-dark\(#(\w{6}), #(\w{6})\)")


def luminance(digits: str) -> float:
    """Relative luminance by WCAG's words, from the two-digit parts."""
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def ratio(one: str, other: str) -> float:
    a, b = luminance(one) + 0.05, luminance(other) + 0.05
    return max(a / b, b / a)


def papers() -> dict[str, tuple[str, str]]:
    css = (ROOT / "static/base.css").read_text()
    return {
        name: (light, dark) for name, light, dark in re.findall(r"--(\w+):\s*light-dark\(#(\w{6}), #(\w{6})\)", css)
    }


@given(st.one_of(st.sampled_from(sorted(ACCENTS)), st.from_regex(r"[0-9a-f]{6}", fullmatch=True)))
def test_every_accent_can_be_read_in_both_themes(accent: str) -> None:
    own = {name: (light, dark) for name, light, dark in PAIR.findall(Look(accent=accent).css)}
    for theme in (0, 1):
        grounds = (papers()["paper"][theme], papers()["raised"][theme], own["wash"][theme])
        assert min(ratio(own["accent"][theme], ground) for ground in grounds) >= 4.5


@pytest.mark.parametrize("accent", ["1f5fae", "#1F5FAE", "fff", *ACCENTS])
def test_accents_that_are_understood(accent: str) -> None:
    assert PAIR.search(look_of(QueryParams({"accent": accent}), ()).css)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("accent", "url(x)"),
        ("accent", "red;}"),
        ("accent", "12345"),
        ("theme", "blue"),
        ("hide", "no-such"),
        ("hide", "*{}"),
    ],
)
def test_what_is_refused_is_named(name: str, given: str) -> None:
    with pytest.raises(SettingError) as caught:
        look_of(QueryParams({name: given}), ("trail",))
    assert caught.value.part == name


def test_what_is_hidden_may_be_written_in_two_ways() -> None:
    one = look_of(QueryParams("hide=trail,check&hide=terms"), look.WHY)
    other = look_of(QueryParams("hide=terms&hide=check&hide=trail"), look.WHY)
    assert one == other and one.query == (("hide", "trail,terms,check"),)


def test_names_of_controls_and_of_sections_do_not_meet() -> None:
    controls = {name for part in PARTS.values() for name in part.settings.model_fields} | set(look.RUN_FIELDS)
    assert not controls & set(look.SECTIONS)
    reserved = {"theme", "accent", "hide", "at", "trail", "order", "offset", "row", "col", "nudge", "model", "bos"}
    assert not reserved & {name for part in PARTS.values() for name in part.settings.model_fields}


def test_the_stylesheet_is_served_and_checked(client: TestClient) -> None:
    answer = client.get("/embed/look.css?accent=teal&hide=seed,trail")
    assert answer.headers["content-type"].startswith("text/css") and "max-age" in answer.headers["cache-control"]
    assert (
        '.controls label:has([name="seed"]), .trail' in answer.text
        or '.trail, .controls label:has([name="seed"])' in (answer.text)
    )
    assert client.get("/embed/look.css?accent=}body{").status_code == 400
    assert client.get('/embed/look.css?hide="]').status_code == 400
