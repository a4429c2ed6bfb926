"""What every answer must be, whatever was asked: no crash, the part named, nothing of what was sent as markup."""

from __future__ import annotations

import json
import re
from typing import Any

import lxml.html

from tests.fuzz.strategies import MARK

PATH_ERRORS = {404, 405}  # of an address or a method that is not there: no parameter is at fault


def check(answer: Any, *, names_part: bool = True) -> None:
    """Every promise about an answer. `names_part`: whether a 4xx must come from a parameter."""
    status, body = answer.status_code, answer.text
    asked = f"{answer.request.method} {str(answer.request.url)[:600]}"
    assert status < 500 or (status == 503 and int(answer.headers["Retry-After"]) >= 1), f"{status} to {asked}"
    assert "Traceback (most recent call last)" not in body, asked
    assert all("\n" not in value and "\r" not in value for value in answer.headers.values()), asked
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    if 300 <= status < 400:
        assert re.match(r"/(?![/\\])", answer.headers["Location"]), f"{asked} leads to {answer.headers['Location']}"
    if answer.request.method == "HEAD" or not body:
        return
    if kind == "application/json":
        check_json(json.loads(body), status, asked, names_part)
    elif kind in ("text/html", "image/svg+xml"):
        check_markup(body, asked)
        if status >= 400:
            check_page(body, status, asked, names_part)
    else:
        assert status < 400, f"{status} as {kind} to {asked}"


def check_json(found: Any, status: int, asked: str, names_part: bool) -> None:
    if status >= 400:
        error = found["error"]
        assert set(error) == {"code", "message", "hint", "part"}, asked
        assert error["code"] and error["message"], asked
        assert error["part"] or status >= 429 or (status in PATH_ERRORS and not names_part), f"{asked}: {error}"


def check_page(html: str, status: int, asked: str, names_part: bool) -> None:
    """An error page says what is wrong, with which part, and how it would be right."""
    fault = next(iter(lxml.html.fromstring(html).xpath("//*[@data-part]")), None)
    assert fault is not None and fault.text_content().strip(), f"{status} says nothing to {asked}"
    part = fault.get("data-part")
    assert part or status >= 429 or (status in PATH_ERRORS and not names_part), f"{status} names no part to {asked}"


def check_markup(html: str, asked: str) -> None:
    """Nothing that was sent has become an element, an attribute, a script, a comment or a link out of the site."""
    assert f"<{MARK}" not in html and f"<!--{MARK}" not in html, f"unescaped: {asked}"
    for element in lxml.html.fromstring(html).iter():
        if not isinstance(element.tag, str):
            assert MARK not in (element.text or ""), f"a comment of {asked}"
            continue
        assert MARK not in element.tag and element.tag not in ("style", "iframe", "object", "embed", "base"), asked
        if element.tag == "script":
            assert not (element.text or "").strip() and "/static/" in element.get("src", ""), asked
        for name, value in element.attrib.items():
            assert MARK not in name and not name.startswith("on") and name != "style", f"<{element.tag} {name}> {asked}"
            if name in ("href", "src", "action", "formaction", "data-hx-get", "data-hx-post", "poster"):
                leads_out = re.match(r"\s*(//|\\|[a-z][a-z0-9+.-]*:)", value, re.IGNORECASE)
                own = value.startswith(("data:image/", "http://testserver/"))
                assert not leads_out or own, f"<{element.tag} {name}={value[:80]}> {asked}"
