"""How long one explanation takes on a warm run of GPT-2 small's shape, op by op: `python -m benchmarks.explaining`."""

from __future__ import annotations

import random
import time
from statistics import median, quantiles

from benchmarks.capture import kept
from model.address import Address

LIMIT = 25.0  # milliseconds, for 95 of 100


def main() -> None:
    run = kept(15)
    by_op: dict[str, list[float]] = {}
    nodes = [node for node in run.model.graph if node.block in (None, 5)]
    for quantity in ("", "grad"):
        for node in nodes:
            if quantity and node.name == "tokens":
                continue
            for n in range(8):
                place = tuple(random.randrange(size) for size in run.shape(node.name))
                started = time.perf_counter()
                run.explain(str(Address(node.name, place, quantity)), limit=10, order="size")
                if n:  # the first of a site derives it
                    kind = node.op.name + (" gradient" if quantity else "")
                    by_op.setdefault(kind, []).append(1000 * (time.perf_counter() - started))
    every = sorted(t for times in by_op.values() for t in times)
    for kind, times in sorted(by_op.items(), key=lambda item: -median(item[1])):
        print(f"{kind:28} median {median(times):7.2f} ms, most {max(times):7.2f} ms")
    p95 = quantiles(every, n=20)[-1]
    print(f"{'all':28} median {median(every):7.2f} ms, 95 of 100 within {p95:.2f} ms (limit {LIMIT:g})")


if __name__ == "__main__":
    main()
