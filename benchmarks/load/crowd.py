"""Students at work, through Locust in a process of its own, and what it measured."""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load.server import ROOT


@dataclass(frozen=True)
class Row:
    """One kind of request; times in milliseconds."""

    name: str
    requests: int
    failures: int
    median: float
    p95: float
    slowest: float
    a_second: float


class Crowd:
    """So many students for so long."""

    def __init__(self, url: str, students: int, seconds: int, at_once: int = 50) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "locust", "-f", str(ROOT / "benchmarks/load/students.py"), "--headless",
                "--host", url, "-u", str(students), "-r", str(at_once), "-t", f"{seconds}s", "--stop-timeout", "20",
                "--csv", str(self.folder / "load"), "--only-summary", "--loglevel", "WARNING",
            ],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def is_at_work(self) -> bool:
        return self.process.poll() is None

    def wait(self) -> list[Row]:
        """Until they have gone; one row for each kind of request and the sum of all."""
        self.process.wait()
        with (self.folder / "load_stats.csv").open() as file:
            return [row_of(found) for found in csv.DictReader(file)]

    def failures(self) -> list[str]:
        """What failed, how often and how."""
        with (self.folder / "load_failures.csv").open() as file:
            return [f"{f['Occurrences']} × {f['Name']}: {f['Error']}" for f in csv.DictReader(file)]


def row_of(found: dict[str, str]) -> Row:
    return Row(
        found["Name"],
        int(found["Request Count"]),
        int(found["Failure Count"]),
        float(found["50%"]) if found["50%"] != "N/A" else 0.0,
        float(found["95%"]) if found["95%"] != "N/A" else 0.0,
        float(found["Max Response Time"]),
        float(found["Requests/s"]),
    )


def table(rows: list[Row]) -> str:
    """As Markdown."""
    lines = ["| request | n | failed | median ms | p95 ms | slowest ms | a second |", "| --- |" + " ---: |" * 6]
    for r in rows:
        numbers = f"{r.requests} | {r.failures} | {r.median:.0f} | {r.p95:.0f} | {r.slowest:.0f} | {r.a_second:.1f}"
        lines.append(f"| {r.name} | {numbers} |")
    return "\n".join(lines)
