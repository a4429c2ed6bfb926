"""Each snippet of docs/embedding.md is what it says, and leads to a page that is there."""

from __future__ import annotations

import re
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.parts.table import PARTS
from app.request import look
from app.request.look import ACCENTS
from tests.conftest import ROOT
from tests.embedding_docs import snippets

SERVER = "http://testserver"
HTML = ("html", "moodle", "canvas", "quarto", "sphinx")


def frame_in(markup: str) -> dict[str, Any]:
    frame = BeautifulSoup(markup, "lxml").iframe
    assert frame is not None
    return frame.attrs


def check_page(client: TestClient, url: str) -> None:
    answer = client.get(url)
    assert answer.status_code == 200 and url.startswith(f"{SERVER}/embed/")
    assert "frame-ancestors *" in answer.headers["content-security-policy"]


def test_all_are_tried_here() -> None:
    assert set(snippets(SERVER)) == {*HTML, "script", "jupyter", "myst"}


@pytest.mark.parametrize("name", HTML)
def test_frames(client: TestClient, name: str) -> None:
    frame = frame_in(snippets(SERVER)[name])
    assert {"src", "title", "width", "height"} <= set(frame) and frame["loading"] == "lazy"
    check_page(client, frame["src"])


def test_quarto_and_sphinx_wrap_it_as_raw_html() -> None:
    found = snippets(SERVER)
    assert re.fullmatch(r"```\{=html\}\n<iframe .*</iframe>\n```", found["quarto"], re.DOTALL)
    directive, body = found["sphinx"].split("\n\n", 1)
    assert directive == ".. raw:: html" and all(line.startswith("   ") for line in body.splitlines())
    assert frame_in(textwrap.dedent(body))


def test_myst_directive(client: TestClient) -> None:
    opened, option, closed = snippets(SERVER)["myst"].splitlines()
    match = re.fullmatch(r":::\{iframe\} (\S+)", opened)
    assert match and closed == ":::" and re.fullmatch(r":\w+: \S+", option)
    check_page(client, match[1])


def test_jupyter_runs(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """With IPython where it is installed, else with a stand-in that draws a frame as IPython does."""
    try:
        import IPython.display  # noqa: F401
    except ImportError:
        package, display = ModuleType("IPython"), ModuleType("IPython.display")

        class IFrame:
            def __init__(self, src: str, width: object, height: object) -> None:
                self.src, self.width, self.height = src, width, height

            def _repr_html_(self) -> str:
                return f'<iframe width="{self.width}" height="{self.height}" src="{self.src}"></iframe>'

        display.IFrame = IFrame  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
    *setup, last = snippets(SERVER)["jupyter"].splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(setup), names)
    shown = eval(last, names)  # a notebook shows what its last line is
    frame = frame_in(shown._repr_html_())
    assert frame["width"] == "100%" and int(frame["height"]) > 100
    check_page(client, frame["src"])


def test_script_line(client: TestClient) -> None:
    script = BeautifulSoup(snippets(SERVER)["script"], "lxml").script
    assert client.get(script["src"]).headers["access-control-allow-origin"] == "*"
    assert script["integrity"].startswith("sha384-") and script["crossorigin"] == "anonymous"


def test_what_is_said_can_be_set() -> None:
    """Every name of the docs is one, and every name is in the docs."""
    text = (ROOT / "docs/embedding.md").read_text()
    said = set(re.findall(r"`([a-z-]+)`", text))
    assert set(look.SECTIONS) <= said
    assert all(name in text for name in ACCENTS)
    assert {"temperature", "arrows", "heads", "math_dot"} <= set(PARTS)
