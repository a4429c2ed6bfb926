"""Reads back the numbers that a page shows: each link's own address says what it should be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from bs4 import BeautifulSoup, Tag
from fastapi import FastAPI

from app.services import Services
from model import Run

POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


@dataclass(frozen=True)
class Shown:
    """A number on a page: its text, its address, the run that its link names."""

    text: str
    at: str
    run: Run
    in_percent: bool

    def fault(self) -> str:
        """ "" where the text is the run's number as far as its digits go, else what is wrong."""
        value, half_a_digit = read(self.text)
        true = float(self.run.values(self.at)) * (100 if self.in_percent else 1)
        if math.isinf(value) or math.isnan(value):
            return "" if value == true else f"{self.at} is {true}, shown as {self.text}"
        close = abs(value - true) <= half_a_digit * 1.001 + 1e-12
        return "" if close else f"{self.at} is {true!r}, shown as {self.text}"


def read(text: str) -> tuple[float, float]:
    """A shown number and half a unit of its last digit: 85.8 %, −1,204, 3.1×10⁻⁷, +0.13, −∞."""
    text = text.strip().replace("−", "-").replace(",", "")
    scale = 0.01 if text.endswith("%") else 1.0
    text = text.removesuffix("%").strip()
    if "∞" in text:
        return (-math.inf if "-" in text else math.inf), 0.0
    mantissa, _, power = text.partition("×10")
    exponent = int(power.translate(POWERS)) if power else 0
    decimals = len(mantissa.partition(".")[2])
    return float(mantissa) * 10.0**exponent * scale, 0.5 * 10.0 ** (exponent - decimals) * scale


class Reader:
    """Reads pages of one app; runs are kept."""

    def __init__(self, app: FastAPI) -> None:
        self.services: Services = app.state.services
        self.runs: dict[tuple[str, ...], Run] = {}

    def run(self, query: dict[str, str]) -> Run:
        """The run that a link names, numbers set on the way included."""
        key = tuple(query.get(name, "") for name in ("model", "text", "target", "bos", "set"))
        if key not in self.runs:
            model, text, target, bos, changes = key
            run = self.services.models.get(model).run(text, target or None, bos=bos != "0")
            self.runs[key] = run.changed(changes.split("\n")) if changes else run
        return self.runs[key]

    def numbers(self, html: str) -> Iterator[Shown]:
        """Every linked number of a page or fragment, buttons of long texts too."""
        page = BeautifulSoup(html, "lxml")
        for element in page.select("a.num, button.num"):
            query = self._query(page, element)
            if not query.get("at", "").startswith("tokens"):
                percent = "heat-cell" in element["class"] and ".scores" not in query["at"]
                raw = percent and "exp(" not in query["at"] and ".qk" in query["at"]
                yield Shown(element.get_text(), query["at"], self.run(query), percent and not raw)

    def _query(self, page: BeautifulSoup, element: Tag) -> dict[str, str]:
        if element.name == "a":
            query = parse_qs(urlsplit(str(element["href"])).query, keep_blank_values=True)
            return {name: "\n".join(found) for name, found in query.items()}
        form = page.find(id=element["form"])
        assert isinstance(form, Tag), f"a number belongs to the form {element['form']}, which is not there"
        fields = {str(field["name"]): str(field["value"]) for field in form.select("input")}
        return fields | {"at": str(element["value"])}

    def faults(self, html: str) -> list[str]:
        """All numbers of a page that are not what their addresses say."""
        return [fault for fault in (shown.fault() for shown in self.numbers(html)) if fault]
