"""Run the benchmarks, print their table, and write it to RESULTS.md beside this file (when all were run).

A benchmark is a module here with a function `races()`; add its name to MODULES.
"""

from __future__ import annotations

import argparse
import os
import platform
from importlib import import_module
from pathlib import Path

import torch
import transformers

from benchmarks.race import Race, Result, run

MODULES = ("capture", "generation")
RESULTS = Path(__file__).with_name("RESULTS.md")
HEADINGS = ("what", "Every Number", "the other", "unit", "against", "ratio", "range", "limit", "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Times as ratios; smaller is faster.")
    parser.add_argument("words", nargs="*", help="run only the benchmarks whose name holds one of these words")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds of each (9)")
    parser.add_argument("--threads", type=int, default=0, help="threads of PyTorch (its own choice)")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    races = [race for module in MODULES for race in import_module(f"benchmarks.{module}").races()]
    results = [show(run(race, chosen.rounds)) for race in races if wanted(race, chosen.words)]
    table = "\n".join([line(HEADINGS), line(["---"] * len(HEADINGS)), *(line(cells(result)) for result in results)])
    print(f"\n{table}\n\n{machine()}")
    if not chosen.words:
        RESULTS.write_text(page(table, chosen.rounds), "utf-8")


def wanted(race: Race, words: list[str]) -> bool:
    return not words or any(word in race.name for word in words)


def show(result: Result) -> Result:
    """Each as it is done: all of them take minutes."""
    print(f"{result.race.name}: ratio {result.ratio:.2f}", flush=True)
    return result


def cells(result: Result) -> list[str]:
    race = result.race
    return [
        race.name,
        f"{result.ours:.1f}",
        f"{result.theirs:.1f}",
        race.unit,
        race.against,
        f"{result.ratio:.2f}",
        f"{result.lowest:.2f} – {result.highest:.2f}",
        f"≤ {race.limit:g}",
        "holds" if result.holds else "misses",
    ]


def line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def page(table: str, rounds: int) -> str:
    return (
        "# Benchmarks\n\n"
        "Written by `make bench`. GPT-2 small's shape with random weights. A ratio is our time over the other's in\n"
        f"the same process run, the median of {rounds} rounds, with the lowest and highest beside it.\n\n"
        f"{table}\n\n{machine()}\n"
    )


def machine() -> str:
    """The kind of machine, in one line."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, {platform.system()}; "
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}; "
        f"load average at the end {load}."
    )


def processor() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
