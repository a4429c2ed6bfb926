"""What HTMX says in the headers of a request: whether it wants a part of a page, which, and from where it asks."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request


@dataclass(frozen=True)
class Htmx:
    """`wants_part` is False for a whole page, which HTMX asks for too where it restores its history.

    `target` is the id of the element to be replaced, "" where none is named or a whole page is wanted. `around` is the
    path of the page that asks, its prefix included.
    """

    wants_part: bool = False
    target: str = ""
    around: str = ""

    @classmethod
    def of(cls, request: Request) -> Htmx:
        headers = request.headers
        wants_part = "HX-Request" in headers and "HX-History-Restore-Request" not in headers
        around = urlsplit(headers.get("HX-Current-URL", "")).path
        return cls(wants_part, headers.get("HX-Target", "") if wants_part else "", around)

    def one_of(self, parts: Container[str]) -> str:
        """The target, where it is one of these parts; "" for the whole page."""
        return self.target if self.target in parts else ""


HtmxDep = Annotated[Htmx, Depends(Htmx.of)]
