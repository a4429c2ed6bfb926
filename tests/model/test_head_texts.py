"""A head's score opened text by text: the runs of the texts must make the score that was measured in batches."""

from __future__ import annotations

from functools import cache

import pytest

from model import LanguageModel, load
from model.study.head_texts import (
    MOST_QUERIES,
    HeadText,
    looks,
    shares,
    texts_of,
)
from model.study.heads import KINDS, HeadScores, measure_heads
from tests.model.models import random_model

HEAD = (1, 1)


@cache
def scores(model: LanguageModel) -> HeadScores:
    return next(one for one in measure_heads(model) if (one.block, one.head) == HEAD)


def of_runs(model: LanguageModel, texts: list[HeadText]) -> dict[str, list[float]]:
    """Each text's share in a run of its own, by group."""
    found: dict[str, list[float]] = {}
    for text in texts:
        run = model.run(model.spelled(text.tokens[1:]))
        assert run.tokens == text.tokens
        found.setdefault(text.group, []).append(float(run.values(f"calc({text.share(*HEAD)})")))
    return found


def check(model: LanguageModel, kind: str) -> None:
    texts = texts_of(model, kind)
    by_group = of_runs(model, texts)
    means = [sum(group) / len(group) for group in by_group.values()]
    assert min(means) == pytest.approx(getattr(scores(model), kind), abs=1e-6)
    in_order = [share for group in by_group.values() for share in group]
    assert sorted(in_order) == pytest.approx(sorted(shares(model.net, texts, *HEAD)), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shares_of_the_runs_make_the_score(kind: str) -> None:
    check(load("embedded"), kind)


@pytest.mark.parametrize("kind", ["previous", "start", "duplicate", "induction"])
def test_on_random_weights_in_a_short_context(kind: str) -> None:
    check(random_model("relu"), kind)


def test_names_that_are_not_one_token_have_no_texts() -> None:
    assert texts_of(random_model("relu"), "receiver") == []
    assert scores(random_model("relu")).receiver is None


def test_where_a_head_of_each_kind_looks() -> None:
    tokens = [0, 7, 8, 7, 8, 7]
    assert looks("previous", tokens) == ((2, (1,)), (3, (2,)), (4, (3,)), (5, (4,)))
    assert looks("start", tokens) == ((2, (0,)), (3, (0,)), (4, (0,)), (5, (0,)))
    assert looks("duplicate", tokens) == ((3, (1,)), (4, (2,)), (5, (1, 3)))
    assert looks("induction", tokens) == ((3, (2,)), (4, (3,)), (5, (2, 4)))


def test_no_expression_where_nothing_counts_or_too_much() -> None:
    assert HeadText((0, 5), looks("duplicate", (0, 5))).share(*HEAD) == ""
    many = tuple(range(MOST_QUERIES + 3))
    assert HeadText(many, looks("previous", many)).share(*HEAD) == ""
    assert HeadText(many[:-1], looks("previous", many[:-1])).share(*HEAD) != ""
