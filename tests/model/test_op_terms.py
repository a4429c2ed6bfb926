"""Every op's terms, one by one: place, sign, size, label and factors, forward and backward.

Totals alone do not tell a wrong sign where terms cancel, nor one occurrence of a token from another.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest
import torch

from tests.model.op_oracle import (
    CASES,
    Case,
    address_of,
    case_of,
    expected_terms,
    key_of,
    local_of,
    moves_with,
    place_in,
    read_by,
    sources_of,
)

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch's own, forward mode

ALL = 100_000  # more terms than any explanation here has
QUICK = [case for case in CASES if case[0] not in ("embedded", "wide")]


def places_of(case: Case, name: str, n_random: int = 2) -> list[tuple[int, ...]]:
    """First, last and random places; in W_E rows whose token comes twice, once and never; in attention a masked one."""
    shape = case.run.shape(name)
    found = {tuple(0 for _ in shape), tuple(size - 1 for size in shape)}
    found |= {tuple(random.randrange(size) for size in shape) for _ in range(n_random)}
    axes = case.node(name).axes
    if axes[1:] == ("query", "key"):
        found |= {(0, 0, shape[2] - 1), (shape[0] - 1, shape[1] - 1, 0)}
    if "d_vocab" in axes:
        count = Counter(case.tokens)
        rows = [row for row, times in count.items() if times > 1] + [case.tokens[-1], *case.goals[-2:]]
        found |= {tuple(row if axis == "d_vocab" else p for axis, p in zip(axes, place, strict=True))
                  for row in rows for place in list(found)[:2]}  # fmt: skip
    return sorted(found)


def test_every_text_has_a_token_twice_and_one_once() -> None:
    for name, target in CASES:
        times = Counter(case_of(name, target).tokens).values()
        assert max(times) > 1 and min(times) == 1, name


# -- backward


@pytest.mark.parametrize(("name", "target"), CASES)
def test_each_term_of_a_gradient_is_the_slope_there_times_the_local_derivative(name: str, target: str | None) -> None:
    case = case_of(name, target)
    sites = [node.name for node in case.run.model.graph if node.name not in ("tokens", "loss", "W_U")]
    if (name, target) not in QUICK:
        sites = [site for site in sites if not site.startswith("blocks.") or site.startswith("blocks.0.ln1")]
    for site in sites:
        for at in places_of(case, site):
            check_gradient(case, site, at)


def check_gradient(case: Case, site: str, at: tuple[int, ...]) -> None:
    address = address_of(site, at, "grad")
    terms = terms_by_reader(case, address)
    for reader in case.run.model.graph.gradient_consumers(site):
        expected = expected_terms(case, reader, site, at)
        largest = max(map(abs, expected.values()), default=0.0)
        listed = terms.pop(reader.name, {})
        for (label, place), product in listed.items():
            right = expected.pop((label, place), 0.0)
            assert product == pytest.approx(right, rel=2e-5, abs=2e-6 * largest), (
                f"{address} through {reader.name}{list(place)} {label!r}: the term is {product:.6g}, "
                f"but the slope there times the local derivative is {right:.6g}"
            )
        for (label, place), missing in expected.items():
            assert abs(missing) <= 2e-6 * largest, (
                f"{address}: the term through {reader.name}{list(place)} {label!r}, {missing:.6g}, is left out"
            )
    assert not terms, f"{address} lists terms through {list(terms)}, which do not read {site}"


def terms_by_reader(case: Case, address: str) -> dict[str, dict[tuple[str, tuple[int, ...]], float]]:
    """Reader -> (label, the place of the slope it hands back, and on an axis summed inside) -> product."""
    found: dict[str, dict[tuple[str, tuple[int, ...]], float]] = {}
    via = {"W_E": {"embed": "as embedding", "logits": "as unembedding"}}
    e = case.run.explain(address, limit=ALL)
    check_order(e)
    for term in e.terms:
        upstream = [f.address for f in term.factors if f.address and f.address.endswith(".grad")]
        assert len(upstream) == 1, f"{address}: a term has {len(upstream)} slopes as factors: {term.factors}"
        reader, place = place_in(upstream[0])
        words = via.get(place_in(address)[0], {}).get(reader, f"through {reader.rpartition('.')[2]}")
        head, _, label = term.label.partition(": ")
        assert head == words, f"{address}: a term through {reader} is labelled {term.label!r}"
        if reader.endswith(".var") and address.split("[")[0].endswith(".mean"):
            place = (*place, term.place[0][1])
        terms = found.setdefault(reader, {})
        assert (label, place) not in terms, f"{address}: the term through {reader}{list(place)} {label!r} comes twice"
        terms[label, place] = term.product
        check_place(case, address, term)
    return found


def check_place(case: Case, address: str, term: Any) -> None:
    """A term's place on the axes summed over is where its factors stand."""
    kinds = {"query": "pos", "key": "pos", "n_ctx": "pos"}
    stands = set()
    for factor in term.factors:
        for site, index in re.findall(r"([A-Za-z_][\w.]*)\[([\d,]+)\]", factor.address or ""):
            for axis, i in zip(case.node(site).axes, index.split(","), strict=True):
                stands.add((kinds.get(axis, axis), int(i)))
    for axis, i in term.place:
        assert (kinds.get(axis, axis), i) in stands, (
            f"{address}: term {term.index} is not at {axis} {i}: {term.factors}"
        )


def check_order(e: Any) -> None:
    """Terms of one kind come in the order of their places."""
    for label in {term.label for term in e.terms}:
        places = [term.place for term in e.terms if term.label == label]
        assert places == sorted(places), f"{e.address}: the terms {label!r} are not in order: {places[:3]}…"


@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_row_of_the_table_counts_every_occurrence_of_its_token(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for token, times in Counter(case.tokens).items():
        e = case.run.explain(f"W_E[{token},1].grad", limit=ALL)
        read = [place_in(t.factors[0].address)[1] for t in e.terms if t.label == "as embedding"]
        where = [(t, 1) for t, other in enumerate(case.tokens) if other == token]
        assert read == where, f"token {token} comes {times} times, at {where}; its row counts {read}"
        used = {f"embed[{t},1]" for t, _ in where}
        assert used == {at for at in case.run.explain(f"W_E[{token},1]").used_by if at.startswith("embed")}


@pytest.mark.parametrize(("name", "target"), [("toy", None), ("small", "sequence")])
def test_a_slope_is_a_factor_of_the_slopes_of_what_its_number_was_made_from(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph.sites:
        if node.name == "tokens" or node.is_view or node.short in ("exp", "log_probs", "pattern"):
            continue
        for at in places_of(case, node.name, 0):
            used = case.run.explain(address_of(node.name, at, "grad"), limit=1).used_by
            assert all(address.endswith(".grad") for address in used)
            named = {address.removesuffix(".grad") for address in used}
            sources = {address.partition("[")[0] for address in named}
            expected = {(site, place) for site, place in read_by(case, node, at) if site in node.op.grad_reads}
            assert {site for site, _ in expected} <= sources <= set(node.op.grad_reads), (
                f"{node.name}{list(at)}: {used}"
            )
            for site, place in expected:
                assert any(includes(address, site, place) for address in named), f"{node.name}{list(at)}: {site}{place}"


def includes(address: str, site: str, place: tuple[int, ...]) -> bool:
    """Whether an address with slices holds a place."""
    name, _, index = address.partition("[")
    wanted = index.removesuffix("]").split(",")
    return name == site and all(i in (":", str(p)) for i, p in zip(wanted, place, strict=True))


# -- forward

# Short name of a site -> for each kind of term its label and the short names of its factors (constants as LaTeX).
PARTS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "W_U": [("", ("W_E",))],
    "embed": [("the row it picks", ("tokens", "W_E"))],
    "pos_embed": [("the row it picks", (r"\mathrm{position}", "W_pos"))],
    "resid_mid": [("resid_pre", ("resid_pre",)), ("attn_out", ("attn_out",))],
    "resid_post": [("resid_mid", ("resid_mid",)), ("mlp_out", ("mlp_out",))],
    "mean": [("", ("x", "1/d"))],
    "var": [("", ("x-mean", "x-mean", "1/d"))],
    "scale": [("variance", ("var",)), ("ε", (r"\varepsilon",))],
    "normalized": [("x − mean", ("x-mean",)), ("scale", ("scale",))],
    "out": [("stretched", ("normalized", "w")), ("bias", ("b",))],
    "q": [("", ("out", "W_Q")), ("bias", ("b_Q",))],
    "k": [("", ("out", "W_K")), ("bias", ("b_K",))],
    "v": [("", ("out", "W_V")), ("bias", ("b_V",))],
    "qk": [("", ("q", "k"))],
    "exp": [("score", ("scores",)), ("largest", ("scores", "-1"))],
    "pattern": [("this one", ("exp",)), ("", ("exp",))],
    "z": [("", ("pattern", "v"))],
    "result": [("", ("z", "W_O"))],
    "attn_out": [("", ("z", "W_O")), ("bias", ("b_O",))],
    "pre": [("", ("out", "W_in")), ("bias", ("b_in",))],
    "post": [("u", ("pre",))],
    "mlp_out": [("", ("post", "W_out")), ("bias", ("b_out",))],
    "logits": [("", ("out", "W_E"))],
    "probs": [("this one", ("logits", "logits")), ("", ("logits", "logits"))],
    "log_probs": [("logit", ("logits",)), ("largest logit", ("logits", "-1")), ("log of the total", ("log Σ", "-1"))],
}


def parts_of(case: Case, name: str, at: tuple[int, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """PARTS, and what depends on the place."""
    node = case.node(name)
    if (node.is_parameter and name != "W_U") or name == "tokens":
        return []
    if node.short == "resid_pre":
        before = ["embed", "pos_embed"] if node.block == 0 else ["resid_post"]
        return [(site, (site,)) for site in before]
    if node.short == "scores":
        if at[2] > at[1]:
            return [("mask", (r"-\infty",))]
        return [("", ("qk", rf"\tfrac{{1}}{{\sqrt{{{case.run.model.config.d_head}}}}}"))]
    if name == "loss_per_token":
        return [("", ("log_probs", "-1"))] if case.reads_log_p[at[0]] else [("p", ("probs",))]
    if name == "loss":
        return (
            [("", ("loss_per_token", rf"\tfrac{{1}}{{{len(case.scored)}}}"))]
            if case.is_sequence
            else [("", ("loss_per_token",))]
        )
    return PARTS[node.short]


def factor_of(case: Case, node: Any, factor: Any) -> str:
    """A factor as PARTS names it."""
    d = case.run.model.config.d_model
    if factor.address is None:
        return "1/d" if factor.constant == rf"\tfrac{{1}}{{{d}}}" and node.short in ("mean", "var") else factor.constant
    if factor.address.startswith("calc(log(sum("):
        return "log Σ"
    sites = re.findall(r"([A-Za-z_][\w.]*)\[", factor.address) or [factor.address]
    reads = list(node.op.reads)
    assert set(sites) <= set(reads), f"{node.name} reads {reads}, but a factor is {factor.address}"
    is_norm = node.short in ("mean", "var", "normalized")
    return "-".join("x" if is_norm and site == reads[0] else site.rpartition(".")[2] for site in sites)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_each_forward_term_has_its_label_and_its_factors(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph:
        for at in places_of(case, node.name, 1):
            e = case.run.explain(address_of(node.name, at), limit=ALL)
            shown = dict.fromkeys((t.label, tuple(factor_of(case, node, f) for f in t.factors)) for t in e.terms)
            assert list(shown) == parts_of(case, node.name, at), e.address
            for term in e.terms:
                check_place(case, e.address, term)
            check_order(e)


@pytest.mark.parametrize(("name", "target"), QUICK)
def test_forward_factors_are_the_numbers_that_move_it(name: str, target: str | None) -> None:
    """Whatever a number moves with stands among its terms' factors, at its own address, and once."""
    case = case_of(name, target)
    for node in case.run.model.graph.sites:
        if node.short in ("tokens", "log_probs", "probs", "exp"):  # their terms hold what cancels, or sums of a row
            continue
        for at in places_of(case, node.name, 1):
            listed: Counter[tuple[str, tuple[int, ...]]] = Counter()
            for term in case.run.explain(address_of(node.name, at), limit=ALL).terms:
                listed.update({place_in(found[0] + found[1]) for f in term.factors
                               for found in re.findall(r"([A-Za-z_][\w.]*)(\[[\d,]+\])", f.address or "")})  # fmt: skip
            moved = set(read_by(case, node, at))
            missing = moved - set(listed)
            assert not missing, f"{node.name}{list(at)} moves with {sorted(missing)[:3]}, which no term shows"


# What need not move: a number under the mask or a bend, deviations that cancel, what a largest number hides.
STILL = {("z", "v"), ("v", "z"), ("var", "mean"), ("scores", "qk")}
BENT = {"post", "exp", "pattern", "loss_per_token"}


@pytest.mark.parametrize(("name", "target"), [("small", "sequence"), ("one head", None)])  # no weight is just 0
def test_a_number_is_said_to_be_read_where_it_moves_another(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph:
        for reader in case.run.model.graph.consumers(node.name) if node.name != "tokens" else []:
            if reader.is_parameter or reader.short in BENT or (reader.short, node.short) in STILL:
                continue
            for at in places_of(case, node.name, 1):
                check_readers(case, node.name, at, reader)


def check_readers(case: Case, site: str, at: tuple[int, ...], reader: Any) -> None:
    """The places of `reader` among those that read site[at] are just those that move with it."""
    s = sources_of(case, reader)
    moves = moves_with(local_of(case, reader), s, key_of(reader, site), at)
    moved = torch.nonzero(moves).tolist()
    said = torch.zeros_like(moves)
    for address in case.run.explain(address_of(site, at), limit=1).used_by:
        name, _, index = address.partition("[")
        if name == reader.name:
            said[tuple(slice(None) if i == ":" else int(i) for i in index.removesuffix("]").split(",") if i)] = 1
    assert said.nonzero().tolist() == moved, f"{site}{list(at)} moves {reader.name} at {moved[:4]}, not where it says"


@pytest.mark.parametrize("name", ["small", "wide", "toy"])
def test_subtotals_add_up_their_own_terms(name: str) -> None:
    case = case_of(name)
    for at in places_of(case, "blocks.0.attn_out"):
        e = case.run.explain(address_of("blocks.0.attn_out", at), limit=ALL)
        assert len(e.subtotals) == case.run.model.config.n_head
        for h, part in enumerate(e.subtotals):
            own = sum(term.product for term in e.terms if ("head", h) in term.place)
            assert (part.axis, part.place) == ("head", h)
            assert part.address == f"blocks.0.attn.result[{at[0]},{h},{at[1]}]"
            assert part.value == pytest.approx(own, rel=1e-12, abs=1e-15)
