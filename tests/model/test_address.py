"""Addresses and expressions: what reads back, and what is refused with the part named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.address.parser import parse
from model.address.trees import Address, Binary, Calc, Call, Negative, Number, Partial
from model.errors import AddressError

SITES = ["loss", "tokens", "W_E", "blocks.0.attn.qk", "blocks.11.mlp.W_in", "ln_final.normalized"]
INDEX = st.one_of(
    st.integers(0, 50_000),
    st.builds(slice, st.none() | st.integers(0, 9), st.none() | st.integers(10, 99)),
)
ADDRESS = st.builds(
    Address,
    st.sampled_from(SITES),
    st.lists(INDEX, max_size=3).map(tuple),
    st.sampled_from(["", "grad", "step", "step(3)"]),
)
NUMBER = st.builds(Number, st.floats(0, 1e6, allow_nan=False))
TREE = st.recursive(
    ADDRESS | NUMBER | st.builds(Partial, ADDRESS, st.integers(0, 5), st.integers(6, 9)),
    lambda inner: (
        st.builds(Binary, st.sampled_from("+-*/"), inner, inner)
        | st.builds(Negative, inner.filter(lambda n: not isinstance(n, Negative)))
        | st.builds(Call, st.sampled_from(["exp", "log", "sqrt", "max", "sum"]), inner)
    ),
    max_leaves=12,
)


@given(ADDRESS)
def test_an_address_reads_back(address: Address) -> None:
    assert parse(str(address)) == address


@given(TREE)
def test_an_expression_reads_back(tree: object) -> None:
    calc = Calc(tree)  # type: ignore[arg-type]
    assert parse(str(calc)) == calc


def test_precedence_is_that_of_arithmetic() -> None:
    one, two, three = Number(1), Number(2), Number(3)
    assert parse("calc(1-2-3)") == Calc(Binary("-", Binary("-", one, two), three))
    assert parse("calc(1-2×3)") == Calc(Binary("-", one, Binary("*", two, three)))
    assert parse("calc(−1÷2)") == Calc(Binary("/", Negative(one), two))


def test_spaces_do_not_matter() -> None:
    assert parse(" blocks.0.attn.q [ 3 , 1 , 2 ] ") == Address("blocks.0.attn.q", (3, 1, 2))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "empty"),
        ("logits[1,-2]", "-2"),
        ("logits[1.5]", "1.5"),
        ("logits[1", "]"),
        ("logits[1]]", "left over"),
        ("logits[]", "whole index"),
        ("logits[1].foo", ".foo"),
        ("calc(1+)", "site"),
        ("calc(1", ")"),
        ("calc(" + "(" * 40 + "1" + ")" * 40 + ")", "deep"),
        ("calc(" + "+".join("1" * 300) + ")", "operations"),
        ("calc(" + "exp(" * 40 + "1" + ")" * 40 + ")", "deep"),
        ("x" * 5000, "5000"),
        ("__import__('os').system('true')", "'"),
        ("logits[99999999999999999999]", "whole index"),
        ("a\x00b", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(text: str, names: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse(text)
    assert names in caught.value.message
    assert caught.value.part == "at"


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        parse(text)
    except AddressError as refused:
        assert refused.message


@given(st.text(alphabet="calc()[]+-*/,:.0123456789 logitsWE_expmax", max_size=80))
def test_nearly_right_text_parses_or_is_refused(text: str) -> None:
    try:
        assert parse(str(parse(text))) == parse(text)
    except AddressError as refused:
        assert refused.hint or refused.message
