"""Run the benchmarks, print their tables, and write them to RESULTS.md beside this file.

Run by name, tables of modules renew their own part of it; some of the races are only printed.

A benchmark is a module here with a function `races()` (see `benchmarks.race`) or `tables()` (see `benchmarks.table`);
add its name to RACES or TABLES.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks.race import Race, Result, run
from benchmarks.table import Row, Table, verdict

RACES = ("capture", "generation")
TABLES = ("serving", "memory", "growth")
AGAINST = "Against others"
RESULTS = Path(__file__).with_name("RESULTS.md")
HEADINGS = ("what", "Every Number", "the other", "unit", "against", "ratio", "range", "limit", "")
RACES_NOTE = """\
GPT-2 small's shape with random weights. A ratio is our time over the other's in the same process run, the median of up
to {rounds} rounds, with the lowest and highest beside it. Gradients are those of a run that is there already, against a
forward and backward pass from scratch. TransformerLens is its version 3, which computes GPT-2 itself; version 4 puts
hooks into transformers' own modules. The matrix products alone are those of the forward pass with all weights: where
they take more than half of TransformerLens's time no forward pass can take less."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Times as ratios; smaller is faster.")
    parser.add_argument("words", nargs="*", help="run only the races whose name holds one of these words (“races”: "
                        f"all of them), and the tables of these modules: {', '.join(TABLES)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds of each (7)")
    parser.add_argument("--threads", type=int, default=0, help="threads of PyTorch (its own choice)")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    started = time.perf_counter()
    tables = [show(table) for table in all_tables(chosen.words, chosen.rounds)]
    told = f"{machine()} All of it took {(time.perf_counter() - started) / 60:.0f} minutes."
    print(told)
    whole = [table for table in tables if not chosen.words or table.title != AGAINST or "races" in chosen.words]
    old = RESULTS.read_text("utf-8") if chosen.words and RESULTS.exists() else ""
    RESULTS.write_text(page(old, whole, told), "utf-8")


def all_tables(words: list[str], rounds: int) -> Iterator[Table]:
    """Each as it is done: all of them take minutes."""
    races = [race for module in RACES for race in import_module(f"benchmarks.{module}").races()]
    all_races = not words or "races" in words
    rows = [row_of(race, rounds) for race in races if all_races or any(word in race.name for word in words)]
    if rows:
        yield Table(AGAINST, HEADINGS, rows, RACES_NOTE.format(rounds=rounds))
    for module in TABLES:
        if not words or module in words:
            yield from import_module(f"benchmarks.{module}").tables()


def row_of(race: Race, rounds: int) -> Row:
    """One race, run; where the other way is not installed, that is said."""
    try:
        result = run(race, min(rounds, race.most_rounds))
    except ImportError as missing:
        print(f"{race.name}: skipped, {missing.name} is not installed", flush=True)
        return [race.name, "", "", race.unit, race.against, "", "", limit(race), f"skipped: no {missing.name}"]
    print(f"{race.name}, against {race.against}: ratio {result.ratio:.2f}", flush=True)
    return cells(result)


def cells(result: Result) -> Row:
    race = result.race
    return [
        race.name,
        f"{result.ours:.1f}",
        f"{result.theirs:.1f}",
        race.unit,
        race.against,
        f"{result.ratio:.2f}",
        f"{result.lowest:.2f} – {result.highest:.2f}",
        limit(race),
        verdict(result.ratio, race.limit) if math.isfinite(race.limit) else "",
    ]


def limit(race: Race) -> str:
    """The limit as it is written; "" where a race has none."""
    return f"≤ {race.limit:g}" if math.isfinite(race.limit) else ""


def show(table: Table) -> Table:
    print(f"\n{table.markdown()}", flush=True)
    return table


def page(old: str, tables: list[Table], told: str) -> str:
    """The page with these tables in place of their old ones, if it had them."""
    parts = {part.partition("\n")[0]: part for part in old.split("\n## ")[1:]}
    for table in tables:
        parts[table.title] = table.markdown().removeprefix("## ")
    ordered = sorted(parts, key=lambda title: title != AGAINST)
    head = f"# Benchmarks\n\nWritten by `make bench` on this machine: {told}\n"
    return head + "".join(f"\n## {parts[title].rstrip()}\n" for title in ordered)


def machine() -> str:
    """The kind of machine, in one line."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    names = [name for name in ("torch", "transformers", "transformer-lens") if version_of(name)]
    return (
        f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, {platform.system()}; "
        f"Python {platform.python_version()}, {', '.join(f'{name} {version_of(name)}' for name in names)}; "
        f"load average at the end {load}."
    )


def version_of(package: str) -> str:
    """Of an installed package, else empty."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def processor() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
