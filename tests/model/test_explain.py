"""Every explanation: its terms make its total, the total meets what PyTorch captured, its factors are where it says."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
import torch

from model.address.parser import Address, parse
from model.errors import AddressError, ReaderError
from model.explain.explain import CHOSEN, SET
from model.explain.explanation import Explanation
from model.explain.terms import FLOOR, TOLERANCE
from model.loading import load
from model.runtime.run import Run
from tests.model.models import SHAPES, error_of, random_model

TEXTS = {"toy": "the cat sat on", "embedded": "When Mary and John went to the store, John gave a drink to"}
NAMES = ["toy", "embedded", *SHAPES]


@cache
def run_of(name: str, target: str | None = None) -> Run:
    model = load(name) if name in TEXTS else random_model(name)
    return model.run(TEXTS.get(name, "Two words, 🙂"), target)


def places(shape: tuple[int, ...], is_attention: bool, n_random: int) -> list[tuple[int, ...]]:
    """Corners, a masked place for attention, and random ones."""
    corners = {tuple(0 for _ in shape), tuple(size - 1 for size in shape)}
    if is_attention:
        corners |= {(0, 0, shape[2] - 1), (shape[0] - 1, shape[1] - 1, 0)}
    drawn = {tuple(random.randrange(size) for size in shape) for _ in range(n_random)}
    return sorted(corners | drawn)


def combined(e: Explanation) -> float:
    """The total as the documented meaning of `combine` gives it, apart from the code under test."""
    p = [float(x) for x in e.products]
    if e.combine == "sum":
        return sum(p)
    if e.combine == "quotient":
        return p[0] / sum(p[1:])
    if e.combine == "function":
        x = sum(p)
        known = {
            "identity": lambda: x,
            "sqrt": lambda: x**0.5,
            "exp": lambda: float(np.exp(x)),
            "log": lambda: float(np.log(x)),
            "-log": lambda: float(-np.log(x)),
            "max": lambda: max(p),
            "relu": lambda: max(x, 0.0),
            "gelu_tanh": lambda: float(
                torch.nn.functional.gelu(torch.tensor(x, dtype=torch.float64), approximate="tanh")
            ),
        }
        assert e.function is not None
        return known[e.function.name]()
    assert e.combine == "given" and not p
    return e.value


def check(run: Run, address: str) -> None:
    """Promise 2, and that what is shown is what is there."""
    e = run.explain(address, limit=7, order=random.choice(["index", "size"]))
    assert e.value == float(run.values(address)) or (np.isnan(e.value))
    if np.isfinite(e.total):
        assert e.total == pytest.approx(combined(e), rel=1e-9, abs=1e-13)
        size = float(np.abs(e.products).sum()) if e.combine == "sum" else abs(e.value)
        assert abs(e.total - e.value) <= max(TOLERANCE * size, FLOOR), (address, e.total, e.value)
        listed = sum(term.product for term in e.terms)
        assert listed + e.rest == pytest.approx(float(e.products.sum()), rel=1e-9, abs=1e-12)
    else:
        assert e.total == e.value
    assert not e.fault
    for term in e.terms:
        assert term.product == e.products[term.index]
        if e.combine == "sum":
            assert term.product == pytest.approx(float(np.prod([f.value for f in term.factors])), rel=1e-12, abs=1e-300)
        for factor in term.factors:
            assert (factor.address is None) != (factor.constant is None)
            if factor.address:
                assert float(run.values(factor.address)) == pytest.approx(factor.value, rel=1e-14, abs=0)
    for reader in e.used_by:
        assert run.values(reader).size
    assert str(e).startswith(e.address)


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_number(name: str) -> None:
    """Random and corner places of every site and parameter: over 5,000 addresses in all models together."""
    n = 0
    for target in (None, "sequence"):
        run = run_of(name, target)
        for node in run.model.graph:
            for place in places(run.shape(node.name), node.axes[1:] == ("query", "key"), 14 if target is None else 4):
                check(run, str(Address(node.name, place)))
                n += 1
    assert n > 500


def test_gpt2s_own_shape() -> None:
    """Sums of 768 and 3,072 terms and a softmax over 50,257, 12 blocks deep."""
    run = random_model("gpt2").run("A few words, to be read.")
    for node in run.model.graph:
        for place in places(run.shape(node.name), False, 1):
            check(run, str(Address(node.name, place)))


@pytest.mark.parametrize("name", NAMES)
def test_walks_end_at_tokens_weights_and_constants(name: str) -> None:
    """From the loss (and a logit) down any factor, a walk reaches what nothing in the run computed."""
    for target in (None, "sequence"):
        run = run_of(name, target)
        for _ in range(25):
            at, ends = random.choice(["loss", f"logits[{run.n_pos - 1},{run.target}]", "log_probs[0,1]"]), ""
            for _ in range(40 + 25 * run.model.config.n_layer):
                e = run.explain(at, limit=10_000)
                inputs = [f.address for term in e.terms for f in term.factors if f.address]
                if not inputs:
                    ends = e.combine if e.combine == "given" else "constant"
                    break
                at = random.choice(inputs)
            assert ends in ("given", "constant"), at
            if ends == "given":
                parsed = parse(at)
                assert isinstance(parsed, Address)
                node = run.model.graph[parsed.site]
                assert node.is_parameter or node.name == "tokens"


def test_used_by_and_made_from_are_one_relation() -> None:
    """Whatever a number lists as a factor names it among its readers: the graph holds both ways."""
    run = run_of("relu")
    for node in run.model.graph.sites:
        for place in places(run.shape(node.name), node.axes[1:] == ("query", "key"), 3):
            at = Address(node.name, place)
            for term in run.explain(str(at), limit=40).terms:
                for factor in term.factors:
                    source = parse(factor.address) if factor.address else None
                    if isinstance(source, Address):
                        readers = run.explain(str(source), limit=1).used_by
                        assert any(covers(reader, at) for reader in readers), (str(at), str(source), readers)


def covers(reader: str, at: Address) -> bool:
    """True where the address with slices `reader` includes `at`."""
    found = parse(reader)
    assert isinstance(found, Address)
    pairs = zip(found.index, at.index, strict=True)
    return found.site == at.site and all(isinstance(i, slice) or i == j for i, j in pairs)


def test_by_size_the_largest_come_first() -> None:
    e = run_of("wide").explain("blocks.1.mlp_out[3,5]", limit=50, order="size")
    sizes = [abs(term.product) for term in e.terms]
    assert sizes == sorted(np.abs(e.products), reverse=True)[:50]


def test_pages_of_terms_make_the_whole() -> None:
    run = run_of("wide")
    for order in ("index", "size"):
        seen = []
        for offset in range(0, 400, 90):
            seen += run.explain("blocks.1.mlp_out[3,5]", offset=offset, limit=90, order=order).terms
        assert sorted(term.index for term in seen) == list(range(385))
        e = run.explain("blocks.1.mlp_out[3,5]")
        assert sum(term.product for term in seen) == pytest.approx(e.total)
    assert seen[0].label == "" and {term.label for term in seen} == {"", "bias"}


def test_heads_subtotals_are_their_results() -> None:
    run = run_of("wide")
    e = run.explain("blocks.2.attn_out[4,7]")
    assert [s.place for s in e.subtotals] == [0, 1, 2, 3]
    for subtotal in e.subtotals:
        assert subtotal.address == f"blocks.2.attn.result[4,{subtotal.place},7]"
        assert subtotal.value == pytest.approx(float(run.values(subtotal.address)), rel=1e-4, abs=1e-5)


def test_a_parameter_says_where_it_is_used() -> None:
    run = run_of("toy")
    assert run.explain("W_E[2,1]").used_by == ("embed[2,1]", "logits[:,2]")
    assert run.explain("W_E[7,1]").used_by == ("logits[:,7]",)
    assert "not used in this run" in " ".join(run.explain("W_pos[7,0]").notes)
    assert run.explain("W_U[1,2]").terms[0].factors[0].address == "W_E[2,1]"
    assert run.explain("blocks.0.attn.W_O[1,0,3]").used_by == (
        "blocks.0.attn.result[:,1,3]",
        "blocks.0.attn_out[:,3]",
    )


def test_the_worked_dot_product() -> None:
    """cat · dog = 0.9·0.8 + 0.3·0.4 + 0.2·0.1 + 0.6·0.5 = 1.16, cos = 1.16/√(1.30·1.06) ≈ 0.988."""
    run = run_of("toy")
    dot = "+".join(f"W_E[2,{i}]*W_E[7,{i}]" for i in range(4))
    e = run.explain(f"calc({dot})")
    assert [round(term.product, 6) for term in e.terms] == [0.72, 0.12, 0.02, 0.3]
    assert e.value == pytest.approx(1.16, abs=1e-6)
    lengths = "*".join(f"sum(W_E[{row},:]*W_E[{row},:])" for row in (2, 7))
    assert run.explain(f"calc(({dot})/sqrt({lengths}))").value == pytest.approx(0.988, abs=5e-4)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("nonsense[1]", "no site"),
        ("blocks.7.attn.q[0,0,0]", "no site"),
        ("logits", "more than one number"),
        ("logits[0,:]", "more than one number"),
        ("logits[0]", "more than one number"),
        ("logits[0,0,0]", "2 indices"),
        ("logits[99,0]", "axis pos runs from 0 to"),
        ("logits[0,99999]", "axis d_vocab runs from 0 to"),
        ("logits[0,5:3]", "empty"),
        ("loss[0]", "no index"),
        ("tokens[0].step", "takes no step"),
        ("logits[0,0].step(51)", "limit is 50"),
        ("W_E[0,0].m(1)", "running averages"),
        ("tokens[0].grad", "not a quantity"),
        ("calc(logits[0,:])", "not one"),
        ("calc(logits[0,:]+logits[0,0:3])", "different shapes"),
        ("calc(partial(probs[0,1],0:3))", "not a sum"),
        ("calc(partial(logits[0,1],0:999))", "does not fit"),
        ("calc(partial(logits[0,:],0:3))", "takes one number"),
    ],
)
def test_what_is_not_there_is_named(at: str, says: str) -> None:
    error = error_of(AddressError, run_of("toy").explain, at)
    assert says in error.message
    assert error.message and (error.hint or "calc" in at)


def test_a_negative_page_is_refused() -> None:
    with pytest.raises(ReaderError, match="negative"):
        run_of("toy").explain("loss", offset=-1)


@pytest.mark.parametrize(
    ("change", "at", "value"),
    [
        ("embed[1,2]=0.5", "embed[1,2]", 0.5),
        ("blocks.0.attn.scores[0,0,2]=1", "blocks.0.attn.scores[0,0,2]", 1.0),
        ("W_E[2,1]=3", "W_E[2,1]", 3.0),
    ],
)
def test_a_number_that_was_set_is_explained_by_that_alone(change: str, at: str, value: float) -> None:
    e = load("toy").run("the cat sat", changes=[change]).explain(at)
    assert (e.op, e.combine, e.value, e.formula, e.n_terms) == (SET, "given", value, "", 0)
    assert e.plain == CHOSEN and e.notes[0] == f"Set to {value:g} for this run."


def test_a_weight_that_a_set_score_makes_is_not_said_to_be_none() -> None:
    run = load("toy").run("the cat sat", changes=["blocks.0.attn.scores[0,0,2]=1"])
    e = run.explain("blocks.0.attn.pattern[0,0,2]")
    assert e.value > 0.1 and "no weight" not in e.plain and not e.fault


def test_a_number_set_and_then_moved_says_both() -> None:
    e = load("toy").run("the cat sat", changes=["embed[1,2]=0.5", "embed[1,2]+=0.25"]).explain("embed[1,2]")
    assert (e.value, e.plain, e.notes) == (0.75, CHOSEN, ("Set to 0.5 for this run.", "Moved by 0.25 for this run."))
