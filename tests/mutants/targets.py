"""Which code is mutated, and which tests should notice. Files are found by what they define, wherever they lie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TERMS, LATEX, WORDS = "tests/model/test_op_terms.py", "tests/model/test_op_latex.py", "tests/model/test_op_words.py"
BACKWARD, EXPLAIN, LEARN = "tests/model/test_backward.py", "tests/model/test_explain.py", "tests/model/test_learn.py"
SUMS = "tests/model/test_sum_product.py"
EDGES, WHOLE = "tests/model/test_op_edges.py", "tests/model/test_op_whole.py"
UPDATE, NETWORK = "tests/model/test_op_update.py", "tests/model/test_op_network.py"
EXPRESSION, SAMPLE = "tests/model/test_expression.py", "tests/model/test_sample.py"
QUICK = "not gpt2 and not wide and not embedded and not plain_loop"  # without the slow ones, which see no more

BY_MODEL = (TERMS, LATEX, WORDS, BACKWARD, EXPLAIN)  # their tests run on several models
FIRST = {
    "words": WORDS,
    "LaTeX": LATEX,
    "plain": WORDS,
    "_why_none": WORDS,
    "formula": LATEX,
    "slope": LATEX,
    "gradient_formula": LATEX,
    "gradient": BACKWARD,
    "_gradient": BACKWARD,
    "passed_back_to": TERMS,
    "gradient_rule": TERMS,
}
SMALLEST = "toy or tiny or head"


@dataclass(frozen=True)
class Target:
    """One file: what it defines, the tests in the order in which they are asked, and how many mutants are drawn."""

    defines: str
    tests: tuple[str, ...]
    draw: int
    functions: tuple[str, ...] = ()  # what they are called begins like one of these; all, if none are given
    without: tuple[str, ...] = ()  # and like none of these
    kinds: tuple[str, ...] = ()  # all, if none are given

    @property
    def path(self) -> Path:
        return defining(self.defines)

    def tests_for(self, function: str, kind: str) -> tuple[str, ...]:
        """The tests, those first that look at what this function says, or at faults of this kind."""
        first = FIRST.get(kind, FIRST.get(function, ""))
        return (first, *(test for test in self.tests if test != first)) if first in self.tests else self.tests


OP_TESTS = (TERMS, LATEX, WORDS, WHOLE, BACKWARD, EXPLAIN)
TARGETS = (
    Target("class Lookup", OP_TESTS, 35),
    Target("class SumProduct", (SUMS, *OP_TESTS), 40),
    Target("class NormOp", OP_TESTS, 48, without=("RootMeanSquare", "Divide")),
    Target("class MaskedScale", OP_TESTS, 60),
    Target("class Gelu", OP_TESTS, 25, without=("GatedSilu", "sigmoid")),
    Target("class TokenLoss", OP_TESTS, 30),
    Target("class Ref", (EDGES, EXPRESSION, *OP_TESTS), 15),
    Target("class Op", OP_TESTS, 5, without=("Op.picture",)),
    Target("def query_key_value", OP_TESTS, 22, kinds=("index swap", "words", "LaTeX")),
    Target("def _mlp(c: GPT2Config", OP_TESTS, 14, kinds=("index swap", "words", "LaTeX")),
    Target("class Values", OP_TESTS, 12),
    Target("def step_rule", (UPDATE, LEARN), 30),
    Target("class LayerNorm", (NETWORK, EDGES, BACKWARD), 32,
           ("gelu", "relu_", "softmax_", "Attention.backward", "LayerNorm.", "MLP.", "GPT2.back")),
    Target("class BackwardPass", (NETWORK, EDGES, BACKWARD), 12, ("BackwardPass", "Block.", "Network.back", "causal")),
    Target("def gradient_rule", (WORDS, LATEX, TERMS, BACKWARD), 25),
    Target("def site_gradients", (TERMS, LATEX, EDGES, BACKWARD, LEARN), 18),
    Target("class Learning", (UPDATE, LEARN, EXPRESSION), 28),
    Target("def expression_rule", (EDGES, EXPRESSION, EXPLAIN), 38),
    Target("class Choice", (SAMPLE, EDGES, WHOLE), 38),
)  # fmt: skip


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted((ROOT / "model").rglob("*.py"))}


@cache
def defining(what: str) -> Path:
    """The one file of the model that has a line beginning with this. Raises LookupError for none or several."""
    found = [path for path, text in texts().items() if re.search("^" + re.escape(what) + r"(?!\w)", text, re.MULTILINE)]
    if len(found) != 1:
        raise LookupError(f"“{what}” begins a line in {len(found)} files of model/: {found}")
    return found[0]


def module_of(path: Path) -> str:
    """`model/ops/norm.py` as `model.ops.norm`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def target_of(path: Path) -> Target:
    return next(target for target in TARGETS if target.path == path)


def all_paths() -> Iterator[Path]:
    yield from (target.path for target in TARGETS)
