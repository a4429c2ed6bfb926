"""What every answer must be, whatever was asked: no crash, the part named, nothing of what was sent as markup."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import lxml.html

from tests.fuzz.strategies import MARK


@dataclass(frozen=True)
class Answer:
    """An answer and what was asked, whichever client asked. Names of headers are in small letters.

    `own` is how full addresses of the app begin: the host is the one that the request named.
    """

    method: str
    url: str
    own: str
    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def asked(self) -> str:
        return f"{self.method} {self.url[:1000]}"

    @classmethod
    def of(cls, response: Any) -> Answer:
        """From Starlette's test client, whose headers are texts, or from schemathesis, whose headers are lists."""
        headers = {k.lower(): v if isinstance(v, str) else ", ".join(v) for k, v in response.headers.items()}
        request = response.request
        host = {k.lower(): v for k, v in request.headers.items()}.get("host") or "testserver"
        own = f"http://{host if isinstance(host, str) else host[0]}/"
        return cls(
            request.method,
            str(request.url),
            own,
            response.status_code,
            headers,
            response.content.decode("utf-8", "replace"),
        )


def check(response: Any, *, names_part: bool = True) -> None:
    """Every promise about an answer. `names_part`: whether a 404 or 405 must come from a parameter."""
    a = Answer.of(response)
    assert a.status < 500 or (a.status == 503 and int(a.headers["retry-after"]) >= 1), f"{a.status} to {a.asked}"
    assert "Traceback (most recent call last)" not in a.body, a.asked
    assert all("\n" not in value and "\r" not in value for value in a.headers.values()), a.asked
    if 300 <= a.status < 400 and a.status != 304:
        to = a.headers["location"]
        assert re.match(r"/(?![/\\])", to) or to.startswith((a.own, "http://testserver/")), f"{a.asked} leads to {to}"
    if a.method == "HEAD" or not a.body:
        return
    kind = a.headers.get("content-type", "").partition(";")[0]
    if kind == "application/json":
        check_json(json.loads(a.body), a, names_part)
    elif kind in ("text/html", "image/svg+xml"):
        check_markup(a)
        if a.status >= 400:
            check_page(a, names_part)
    else:
        is_range = a.status in (400, 416) and "/static/" in a.url  # Starlette's own word on a malformed Range
        assert a.status < 400 or is_range, f"{a.status} as {kind} to {a.asked}"


def check_json(found: Any, a: Answer, names_part: bool) -> None:
    if a.status >= 400:
        error = found["error"]
        assert set(error) == {"code", "message", "hint", "part"}, a.asked
        assert error["code"] and error["message"], a.asked
        assert error["part"] or needs_no_part(a.status, names_part), f"{a.asked}: {error}"


def check_page(a: Answer, names_part: bool) -> None:
    """An error page says what is wrong, and with which part."""
    fault = next(iter(lxml.html.fromstring(a.body).xpath("//*[@data-part]")), None)
    assert fault is not None and fault.text_content().strip(), f"{a.status} says nothing to {a.asked}"
    assert fault.get("data-part") or needs_no_part(a.status, names_part), f"{a.status} names no part to {a.asked}"


def needs_no_part(status: int, names_part: bool) -> bool:
    """Too much at once, or an address or a method that is not there: no parameter is at fault."""
    return status >= 429 or (status in (404, 405) and not names_part)


def check_markup(a: Answer) -> None:
    """Nothing that was sent has become an element, an attribute, a script, a comment or a link out of the site."""
    assert f"<{MARK}" not in a.body and f"<!--{MARK}" not in a.body, f"unescaped: {a.asked}"
    is_file = urlsplit(a.url).path.startswith("/export/")  # which holds its own style, and links back to the app
    never = {"iframe", "object", "embed", "base"} | (set() if is_file else {"style"})
    for element in lxml.html.fromstring(a.body).iter():
        if not isinstance(element.tag, str):
            assert MARK not in (element.text or ""), f"a comment of {a.asked}"
            continue
        assert MARK not in element.tag and element.tag not in never, f"<{element.tag}> {a.asked}"
        if element.tag == "style":
            assert MARK not in (element.text or ""), a.asked
        if element.tag == "script":
            assert not (element.text or "").strip() and "/static/" in element.get("src", ""), a.asked
        for name, value in element.attrib.items():
            assert MARK not in name and not name.startswith("on") and name != "style", (
                f"<{element.tag} {name}> {a.asked}"
            )
            if name in ("href", "src", "action", "formaction", "data-hx-get", "data-hx-post", "poster"):
                leads_out = re.match(r"\s*(//|\\|[a-z][a-z0-9+.-]*:)", value, re.IGNORECASE)
                own = value.startswith(("data:image/", "http://testserver/", a.own))
                assert not leads_out or own, f"<{element.tag} {name}={value[:80]}> {a.asked}"
