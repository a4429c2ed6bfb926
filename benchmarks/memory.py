"""The peak memory of learning: `python -m benchmarks.memory` takes ten steps in a process of its own and says it.

The limit is three times the weights (the model, the copy that takes the steps, and one more for slopes) and what the
steps keep.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.table import Table, verdict

STEPS, TOKENS = 10, 15
MEGA = 10**6


def tables() -> Iterator[Table]:
    rows = []
    for what, title in (("steps", f"{STEPS} steps"), ("job", f"the whole job of {STEPS} steps, curve and all")):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", what], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        limit = 3 * found["weights"] + found["kept"]
        rows.append(
            [title, *(f"{found[key] / MEGA:,.0f}" for key in ("weights", "kept", "peak")),
             f"≤ {limit / MEGA:,.0f}", verdict(found["peak"], limit)]
        )  # fmt: skip
    yield Table(
        "Peak memory of learning",
        ("what", "weights MB", "kept sites and slopes MB", "peak MB", "limit MB", ""),
        rows,
        f"GPT-2 small's shape, {TOKENS} tokens, SGD. The peak is what the process took beyond what it took before the "
        "model was made; the limit is three times the weights and what is kept.",
    )


def measure(what: str) -> dict[str, int]:
    """Bytes, in this process."""
    from app.server.process import tune
    from app.stores.learned import learn
    from benchmarks import nets
    from benchmarks.growth import with_random_weights
    from model.ops.update import Rate
    from model.ops.values import Prompt
    from model.runtime.language_model import LanguageModel
    from model.runtime.run import Run

    tune(10**8)
    before = status("VmRSS")
    model = LanguageModel("GPT-2 small", with_random_weights(nets.GPT2_SMALL), nets.tokenizer())
    run = Run.of(model, Prompt("", tuple(nets.tokens(TOKENS)), target=5)).at_rate(Rate(1e-5))
    if what == "job":
        learn(run, STEPS)
    else:
        run.learning.take(STEPS)
    return {
        "weights": 4 * model.n_parameters,
        "kept": run.nbytes,
        "peak": status("VmHWM") - before,
    }


def status(name: str) -> int:
    """A figure of this process's memory in bytes, as Linux tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
