"""The snippets of docs/embedding.md by name, with the address of a real server in place of the example's."""

from __future__ import annotations

import re

from app.features.share import host_script
from tests.conftest import ROOT

EXAMPLE = "https://numbers.example.org"
SNIPPET = re.compile(r"<!-- snippet: (\w+) -->\n(`{3,})(\w+)\n(.*?)\n\2\n", re.DOTALL)


def snippets(server: str) -> dict[str, str]:
    text = (ROOT / "docs/embedding.md").read_text()
    found = {name: body for name, _, _, body in SNIPPET.findall(text)}
    return {
        name: body.replace(EXAMPLE, server).replace("SHA384", host_script.integrity()) for name, body in found.items()
    }
