"""`make mutants`: draw mutants, run the tests that should notice them, and say which survived.

python -m tests.mutants [--draw sample|all|list] [--only TEXT] [--slice 1/4] [--workers 2]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.mutants.draw import drawn, sample
from tests.mutants.harmless import HARMLESS
from tests.mutants.harness import SURVIVED, Verdict, import_libraries, verdicts
from tests.mutants.sources import Mutant


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--draw", choices=["all", "sample", "list"], default="all")
    parser.add_argument("--only", default="", help="mutants whose key holds this")
    parser.add_argument("--slice", default="1/1", help="2/4: the second quarter")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log", type=Path, help="a file to which every verdict is added")
    return parser.parse_args()


def chosen(asked: argparse.Namespace) -> list[Mutant]:
    mutants = sample() if asked.draw == "sample" else drawn()
    part, parts = map(int, asked.slice.split("/"))
    return [m for m in mutants if asked.only in m.key][part - 1 :: parts]


def line(verdict: Verdict) -> str:
    says = " ".join(verdict.message.split())[:160]
    by = f"  by {verdict.test}: {says}" if verdict.test else ""
    return f"{verdict.result}  {verdict.seconds:5.1f} s  {verdict.mutant.key}{by}"


def main() -> int:
    asked = arguments()
    mutants = chosen(asked)
    if asked.draw == "list":
        print("\n".join(m.key for m in mutants))
        return 0
    import_libraries()
    started, counts, survivors = time.monotonic(), Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        for verdict in verdicts(mutants, asked.workers, Path(folder)):
            counts[verdict.result] += 1
            if verdict.result == SURVIVED:
                survivors.append(verdict)
            if asked.log:
                with asked.log.open("a", encoding="utf-8") as log:
                    log.write(line(verdict) + "\n")
            if asked.draw == "sample" or verdict.result == SURVIVED:
                print(line(verdict), flush=True)
    caught = len(mutants) - len(survivors)
    print(f"{len(mutants)} mutants, {caught} caught, {len(survivors)} survived; {len(HARMLESS)} more are harmless "
          f"(docs/testing.md); {time.monotonic() - started:.0f} s")  # fmt: skip
    return int(len(survivors) > len(mutants) / 100)


if __name__ == "__main__":
    sys.exit(main())
