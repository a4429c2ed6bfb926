"""calc(…): values against numpy, explanations closed one level of arithmetic at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.address.trees import Address, Binary, Calc, Call, Negative, Node, Number
from model.errors import AddressError
from model.loading import load
from tests.model.models import random_model

RUN = load("toy").run("the cat sat")
LOGITS, PROBS = RUN["logits"].astype(np.float64), RUN["probs"].astype(np.float64)
MLP = "blocks.0.mlp"
ROW = RUN["blocks.0.ln2.out"][2].astype(np.float64)
W_IN, W_OUT = (RUN[f"{MLP}.{name}"].astype(np.float64) for name in ("W_in", "W_out"))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("logits[2,4]-logits[2,3]", LOGITS[2, 4] - LOGITS[2, 3]),
        ("exp(logits[2,4]-logits[2,3])", np.exp(LOGITS[2, 4] - LOGITS[2, 3])),
        ("probs[2,4]/probs[2,3]", PROBS[2, 4] / PROBS[2, 3]),
        ("sum(probs[2,:])", PROBS[2].sum()),
        ("sum(probs[2,2:5])", PROBS[2, 2:5].sum()),
        ("max(logits[:,3])", LOGITS[:, 3].max()),
        ("1-max(probs[2,:])", 1 - PROBS[2].max()),
        ("sum(probs[2,:]*log(probs[2,:]))", (PROBS[2] * np.log(PROBS[2])).sum()),
        ("log(sum(exp(logits[1,:])))", np.log(np.exp(LOGITS[1]).sum())),
        ("-(2-3)*4/8", 0.5),
        ("sqrt(2)*sqrt(2)", 2.0),
        ("mean(logits[2,:])", LOGITS[2].mean()),
        ("mean(logits[1,2:5]*probs[1,2:5])", (LOGITS[1, 2:5] * PROBS[1, 2:5]).mean()),
        ("sum(positive(logits[2,:]-1))", float((LOGITS[2] > 1).sum())),
        ("positive(-3)", 0.0),
        ("acos(0.5)*180/3.141592653589793", 60.0),
        ("acos(sqrt(2)*sqrt(2)/2)", 0.0),  # a rounding above 1
        (f"dot(blocks.0.ln2.out[2,:],{MLP}.W_in[:,5])", ROW @ W_IN[:, 5]),
        (f"dot(blocks.0.ln2.out[2,:],dot({MLP}.W_in,{MLP}.W_out[:,1]))+1", ROW @ (W_IN @ W_OUT[:, 1]) + 1),
        (f"dot(dot(blocks.0.ln2.out[2,:],{MLP}.W_in),{MLP}.W_out[:,1])", ROW @ W_IN @ W_OUT[:, 1]),
        (f"dot({MLP}.W_in[1,:],{MLP}.W_out[:,1])", W_IN[1] @ W_OUT[:, 1]),
        (f"sum(dot({MLP}.W_in,{MLP}.W_out))", (W_IN @ W_OUT).sum()),
        (f"max(exp(-dot(2*{MLP}.W_in[1:3,:],{MLP}.W_out)))", np.exp(-2 * W_IN[1:3] @ W_OUT).max()),
        ("sum(exp(logits))", np.exp(LOGITS).sum()),
        ("partial(logits[2,4],0:4)", LOGITS[2, 4]),
        ("partial(logits[2,4],1:3)", (RUN["ln_final.out"][2] * RUN["W_E"][4])[1:3].astype(np.float64).sum()),
    ],
)
def test_value_and_terms(written: str, value: float) -> None:
    e = RUN.explain(f"calc({written})", limit=100)
    assert e.value == pytest.approx(value, rel=1e-6)
    assert e.total == pytest.approx(e.value, rel=1e-12)
    assert not e.fault
    for term in e.terms:
        for factor in term.factors:
            if factor.address:
                assert float(RUN.values(factor.address)) == pytest.approx(factor.value, rel=1e-13)


LEAF = st.builds(Address, st.just("logits"), st.tuples(st.integers(0, 3), st.integers(0, 7))) | st.builds(
    Number, st.floats(0.25, 4)
)
TREE: st.SearchStrategy[Node] = st.recursive(
    LEAF,
    lambda inner: (
        st.builds(Binary, st.sampled_from("+-*/"), inner, inner)
        | st.builds(Negative, inner)
        | st.builds(Call, st.sampled_from(["exp", "max", "sum"]), inner)
    ),
    max_leaves=8,
)


def by_numpy(node: Node) -> float:
    if isinstance(node, Address):
        return float(LOGITS[node.index])
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Negative):
        return -by_numpy(node.operand)
    if isinstance(node, Call):
        return float(np.exp(by_numpy(node.operand))) if node.name == "exp" else by_numpy(node.operand)
    assert isinstance(node, Binary)
    left, right = by_numpy(node.left), by_numpy(node.right)
    with np.errstate(all="ignore"):
        return float({"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[node.op](left, right))


@given(TREE)
def test_any_arithmetic_is_explained_down_to_the_run(tree: Node) -> None:
    with np.errstate(all="ignore"):
        expected = by_numpy(tree)
    address = str(Calc(tree))
    if not np.isfinite(expected) or abs(expected) > 1e100:
        return
    e = RUN.explain(address, limit=50)
    assert e.value == pytest.approx(expected, rel=1e-9, abs=1e-12)
    if np.isfinite(e.products).all():
        assert e.total == pytest.approx(e.value, rel=1e-9, abs=1e-9 * float(np.abs(e.products).sum()))
    for term in e.terms:
        for factor in term.factors:
            if factor.address:
                assert len(factor.address) < len(address) or factor.address.startswith("logits")


def test_dividing_by_zero_is_shown_not_hidden() -> None:
    e = RUN.explain("calc(1/(2-2))")
    assert e.value == float("inf")
    assert e.notes[-1] == "This is not a finite number."  # no site of the run holds one


def test_the_logarithm_of_a_negative_number_is_undefined() -> None:
    e = RUN.explain("calc(log(2-3))")
    assert np.isnan(e.value) and np.isnan(e.total)
    e = RUN.explain("calc(log(2-2))")
    assert e.value == e.total == -np.inf


def test_a_range_alone_is_not_one_number() -> None:
    with pytest.raises(AddressError, match="8 numbers"):
        RUN.explain("calc(exp(logits[0,:]))")


def test_a_range_too_large_to_compute_is_refused() -> None:
    run = random_model("gpt2").run("abc")
    with pytest.raises(AddressError, match="38,597,376 numbers"):
        run.values("calc(sum(W_E*W_E))")
    mlp = "blocks.0.mlp"
    assert np.isfinite(run.values(f"calc(dot({mlp}.W_in[5,:],{mlp}.W_out[:,7]))"))
    with pytest.raises(AddressError, match="multiplies more than"):
        run.values(f"calc(sum(dot({mlp}.W_in,{mlp}.W_out)))")


def factors(at: str) -> list[list[str | None]]:
    return [[factor.address for factor in term.factors] for term in RUN.explain(at, limit=3).terms]


def test_products_of_ranges_open_into_the_numbers_themselves() -> None:
    expected = [[f"W_E[2,{i}]", f"W_E[7,{i}]"] for i in range(3)]
    assert factors("calc(sum(W_E[2,:]*W_E[7,:]))") == expected
    assert factors("calc(dot(W_E[2,:],W_E[7,:]))") == expected
    assert factors("calc(sum(W_E[2,1:]*W_E[7,1:]))")[0] == ["W_E[2,1]", "W_E[7,1]"]


def test_a_product_of_matrices_opens_into_rows_and_columns() -> None:
    outer = factors(f"calc(dot(blocks.0.ln2.out[2,:],dot({MLP}.W_in,{MLP}.W_out[:,1])))")
    assert outer[2] == ["blocks.0.ln2.out[2,2]", f"calc(dot({MLP}.W_in[2,:],{MLP}.W_out[:,1]))"]
    assert factors(outer[2][1] or "")[1] == [f"{MLP}.W_in[2,1]", f"{MLP}.W_out[1,1]"]
    whole = factors(f"calc(sum(dot({MLP}.W_in,{MLP}.W_out)))")
    assert whole[1] == [f"calc(dot({MLP}.W_in[0,:],{MLP}.W_out[:,1]))"]


def test_terms_of_ranges_say_where_they_are() -> None:
    terms = RUN.explain("calc(mean(logits[1,2:5]*logits[1,2:5]))", limit=9).terms
    assert [term.place for term in terms] == [(("d_vocab", 2),), (("d_vocab", 3),), (("d_vocab", 4),)]
    assert all(term.factors[0].constant and term.factors[0].value == 1 / 3 for term in terms)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("calc(dot(logits[0,:],W_E[:,0:2]))", "2 numbers, not one"),
        ("calc(dot(logits[0,:],logits[0,1:]))", "8 numbers meet 7"),
        ("calc(dot(logits[0,1],logits[0,:]))", "one or two axes"),
        ("calc(dot(logits[0,:]))", "“,” was expected"),
    ],
)
def test_a_dot_that_does_not_fit_is_refused(at: str, says: str) -> None:
    with pytest.raises(AddressError, match=says):
        RUN.explain(at)


def test_dots_are_bounded_in_number() -> None:
    dots = "+".join(["dot(W_E[1,:],W_E[2,:])"] * 18)
    assert RUN.values(f"calc({dots})") == pytest.approx(18 * (RUN["W_E"][1] @ RUN["W_E"][2]), rel=1e-5)
    with pytest.raises(AddressError, match="more than 200 operations"):
        RUN.values(f"calc({dots}+dot(W_E[1,:],W_E[2,:]))")


def test_an_angle_of_no_cosine_is_no_number() -> None:
    assert np.isnan(RUN.explain("calc(acos(1.5))").value)


@pytest.mark.parametrize("at", [f"{MLP}.W_in[2,3].grad(1)", "blocks.0.ln1.out[1,2].grad(2)", "W_E[3,2].grad(0)"])
def test_the_first_terms_of_a_slope_after_steps(at: str) -> None:
    """Partial sums of a later slope are made of the same terms, named alike, as the slope itself."""
    whole = RUN.explain(at, limit=100)
    first = RUN.explain(f"calc(partial({at},0:{whole.n_terms - 1}))", limit=100)
    assert np.array_equal(first.products, whole.products[:-1])
    assert [term.factors for term in first.terms] == [term.factors for term in whole.terms[:-1]]
    assert first.value == pytest.approx(float(first.products.sum()), rel=1e-15)


def test_a_number_that_overflows_is_refused() -> None:
    """As ∞ it could not be written into a URL again."""
    with pytest.raises(AddressError, match="too large"):
        RUN.values("calc(1e999)")
