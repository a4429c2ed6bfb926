"""`make mutants`: draw mutants, run the tests that should notice them, and say which survived.

python -m tests.mutants [--draw sample|all|list] [--only TEXT] [--slice 1/4] [--workers 2]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.draw import drawn, sample
from tests.mutants.harmless import HARMLESS
from tests.mutants.harness import CAUGHT, Verdict, fault_without_mutant, import_libraries, verdicts
from tests.mutants.sources import Mutant


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--draw", choices=["all", "sample", "list"], default="all")
    parser.add_argument("--only", default="", help="mutants whose key holds this")
    parser.add_argument("--slice", default="1/1", help="2/4: the second quarter")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--log", type=Path, help="a file that gets every verdict; mutants that are in it are not run again"
    )
    return parser.parse_args()


def chosen(asked: argparse.Namespace) -> list[Mutant]:
    mutants = sample() if asked.draw == "sample" else drawn()
    part, parts = map(int, asked.slice.split("/"))
    return [m for m in mutants if asked.only in m.key][part - 1 :: parts]


def known(log: Path | None) -> dict[str, str]:
    """Key -> verdict of the mutants that a log has."""
    lines = log.read_text("utf-8").splitlines() if log and log.exists() else []
    return {key: result for result, _, key, *_ in (text.split("\t") for text in lines)}


def line(verdict: Verdict) -> str:
    says = " ".join(verdict.message.split())[:300]
    return "\t".join((verdict.result, f"{verdict.seconds:.1f} s", verdict.mutant.key, verdict.test, says))


def main() -> int:
    asked = arguments()
    mutants = chosen(asked)
    if asked.draw == "list":
        print("\n".join(m.key for m in mutants))
        return 0
    import_libraries()
    started, found = time.monotonic(), known(asked.log)
    waiting = [mutant for mutant in mutants if mutant.key not in found]
    with tempfile.TemporaryDirectory() as folder:
        if (
            asked.draw == "all"
            and not asked.only
            and asked.slice.startswith("1/")
            and (fault := fault_without_mutant(Path(folder)).strip())
        ):
            print(f"Without any mutant a test fails: {fault}")
            return 2
        for verdict in verdicts(waiting, asked.workers, Path(folder)):
            found[verdict.mutant.key] = verdict.result
            if asked.log:
                with asked.log.open("a", encoding="utf-8") as log:
                    log.write(line(verdict) + "\n")
            if asked.draw == "sample" or verdict.result != CAUGHT:
                print(line(verdict), flush=True)
    survivors = [mutant for mutant in mutants if found[mutant.key] != CAUGHT]
    caught = len(mutants) - len(survivors)
    print(f"{len(mutants)} mutants, {caught} caught, {len(survivors)} survived; {len(HARMLESS)} more are harmless "
          f"(docs/testing.md); {time.monotonic() - started:.0f} s")  # fmt: skip
    return int(len(survivors) > len(mutants) / 100)


if __name__ == "__main__":
    sys.exit(main())
