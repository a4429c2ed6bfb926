"""Addresses and expressions on their own: what is read and written again is the same, and nothing else is raised."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given

from model.address.parser import Address, Calc, parse
from model.errors import AddressError, ReaderError
from model.explain.terms import FLOOR, TOLERANCE
from model.runtime.language_model import LanguageModel
from model.runtime.run import Run
from tests.fuzz.profiles import examples
from tests.fuzz.strategies import CONFIG, addresses
from tests.model.models import byte_tokenizer, random_network


@cache
def run() -> Run:
    return LanguageModel("tiny", random_network(CONFIG, 6.0), byte_tokenizer(CONFIG.d_vocab)).run("cat")


@examples(400)
@given(text=addresses)
def test_what_is_written_reads_back(text: str) -> None:
    try:
        read = parse(text)
    except AddressError:
        return
    assert parse(str(read)) == read
    assert str(parse(str(read))) == str(read)


@examples(150)
@given(text=addresses)
def test_every_number_is_explained_or_refused(text: str) -> None:
    """Promise 2 wherever an address leads; where it leads nowhere, a ReaderError says so, for the value as well."""
    try:
        value = np.asarray(run().values(text))
    except ReaderError:
        with pytest.raises(ReaderError):
            run().explain(text)
        return
    if value.shape:
        with pytest.raises(ReaderError):
            run().explain(text)
        return
    e = run().explain(text, limit=3)
    assert e.address == str(parse(text)) and isinstance(parse(e.address), (Address, Calc))
    if np.isfinite(e.total) and np.isfinite(value):
        size = float(np.abs(e.products).sum()) if e.combine == "sum" else abs(float(value))
        assert e.fault or abs(e.total - float(value)) <= max(TOLERANCE * size, FLOOR)
