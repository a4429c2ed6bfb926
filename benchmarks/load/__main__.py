"""`python -m benchmarks.load class|soak|kill|replicas`: each starts its own server and says what it saw."""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.load.crowd import Crowd, table
from benchmarks.load.server import Server

# Without pages that show measured milliseconds, which no two servers share.
SEEN = (
    "/", "/explore", "/explore?at=logits[14,40]", "/lessons/math", "/lessons/transformer", "/learn?steps=3&eta=0.01",
    "/explore?text=Tom%20saw%20Lily&at=blocks.1.attn.pattern[2,2,1]", "/embed/math_dot", "/about",
    "/api/v1/explain?text=Tom&at=loss", "/api/v1/explain?text=Tom&at=W_E[17,3].grad", "/embed/cut?cut=3",
)  # fmt: skip


def a_class(students: int, seconds: int) -> bool:
    """A class opens a lesson at once. True where nothing failed."""
    with Server() as server:
        crowd = Crowd(server.url, students, seconds)
        rows = crowd.wait()
        print(f"{students} students, {seconds} s; peak memory {server.memory()['peak']:.0f} MiB\n{table(rows)}")
        print(*crowd.failures(), sep="\n")
        return rows[-1].requests > 0 and rows[-1].failures == 0 and server.get("/healthz")[0] == 200


def soak(students: int, seconds: int) -> bool:
    """A smaller class for long. True where nothing failed and memory after the first third grew by < 5 %.

    The budgets are small, so that they are full by then: what grows after that is a leak.
    """
    with Server(EVERYNUMBER_RUN_MEMORY_MB="96", EVERYNUMBER_GENERATION_MEMORY_MB="16") as server:
        crowd, resident, began = Crowd(server.url, students, seconds), [], time.monotonic()
        print("| minute | resident MiB |\n| ---: | ---: |")
        while crowd.is_at_work:
            time.sleep(5)
            resident.append(server.memory()["now"])
            if len(resident) % 12 == 0:
                print(f"| {(time.monotonic() - began) / 60:.0f} | {resident[-1]:.0f} |", flush=True)
        rows = crowd.wait()
        third = len(resident) // 3
        growth = max(resident[2 * third :]) / max(resident[third : 2 * third]) - 1
        print(f"\n{table(rows[-1:])}\nlast third against the one before: {100 * growth:+.1f} %")
        print(*crowd.failures(), sep="\n")
        return rows[-1].failures == 0 and growth < 0.05


def kill(students: int, seconds: int) -> bool:
    """kill −9 in the middle of a load, and a restart on the same port. True where every URL shows what it showed."""
    with Server() as server:
        before = all_shown(server)
        crowd = Crowd(server.url, students, seconds)
        time.sleep(seconds / 2)
        server.kill()
        again = server.start()
        after = all_shown(server)
        crowd.wait()
        different = [path for path in SEEN if before[path] != after[path]]
        print(f"killed under load, ready again after {again:.1f} s; {len(SEEN)} URLs, different: {different or 'none'}")
        return not different and all(status == 200 for status, _ in after.values())


def all_shown(server: Server) -> dict[str, tuple[int, bytes]]:
    """What every URL shows, once all models that they need are loaded: the menu says which are."""
    for path in SEEN:
        shown(server, path)
    return {path: shown(server, path) for path in SEEN}


def shown(server: Server, path: str) -> tuple[int, bytes]:
    """What a URL shows once it has settled: work that goes on is waited for."""
    until = time.monotonic() + 60
    while True:
        status, body = server.get(path)
        if (status not in (429, 503) and b'http-equiv="refresh"' not in body) or time.monotonic() > until:
            return status, body
        time.sleep(0.3)


def replicas(seconds: int) -> bool:
    """Explanations a second from one replica and from two, with eight readers. True where all answers are the same."""
    answers: set[str] = set()
    for n in (1, 2):
        with Server(
            "app.cluster", EVERYNUMBER_CLUSTER_PAGES_MIN=str(n), EVERYNUMBER_CLUSTER_PAGES_MAX=str(n),
            EVERYNUMBER_CLUSTER_CPUS="0.1", OMP_NUM_THREADS="1", RAY_AUTH_MODE="disabled",
        ) as server:  # fmt: skip
            until = time.monotonic() + seconds
            with ThreadPoolExecutor(8) as pool:
                counts = [pool.submit(ask_until, server, until, answers) for _ in range(8)]
                total = sum(count.result() for count in counts)
            print(f"{n} replica{'s' if n > 1 else ''}: {total / seconds:.1f} explanations a second", flush=True)
    return len(answers) == 1


def ask_until(server: Server, until: float, answers: set[str]) -> int:
    n = 0
    while time.monotonic() < until:
        status, body = server.get("/api/v1/explain?at=blocks.2.mlp.post[9,100].grad")
        answers.add(json.dumps([status, json.loads(body)]))
        n += 1
    return n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("what", choices=("class", "soak", "kill", "replicas"))
    parser.add_argument("--students", type=int, default=0, help="0: 100 for class, 20 for the others")
    parser.add_argument("--seconds", type=int, default=0, help="0: 60 for class, 600 for soak, 30 for the others")
    options = parser.parse_args()
    students = options.students or (100 if options.what == "class" else 20)
    seconds = options.seconds or {"class": 60, "soak": 600}.get(options.what, 30)
    runs = {
        "class": lambda: a_class(students, seconds),
        "soak": lambda: soak(students, seconds),
        "kill": lambda: kill(students, seconds),
        "replicas": lambda: replicas(seconds),
    }
    holds = runs[options.what]()
    print("holds" if holds else "DOES NOT HOLD")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
