"""The store under everything that is kept: its budget, what is in use, once for all who ask."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from app.stores.budgeted import BudgetedStore, Busy


class Block:
    """A value of so many bytes."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def weight(block: Block) -> int:
    return block.nbytes


@pytest.fixture
def store() -> BudgetedStore[str, Block]:
    return BudgetedStore(100, weight)


def kept(store: BudgetedStore[str, Block], among: str = "abcdefgh") -> str:
    return "".join(key for key in among if key in store)


def filled(store: BudgetedStore[str, Block], keys: str, nbytes: int = 30) -> None:
    for key in keys:
        store.keep(key, Block(nbytes))


# -- the budget


def test_the_least_recently_used_goes_first(store: BudgetedStore[str, Block]) -> None:
    filled(store, "abc")
    assert store.get("a") is not None and store.nbytes == 90
    filled(store, "d")
    assert kept(store) == "acd" and store.nbytes == 90 and len(store) == 3
    assert store.get("b") is None


def test_what_grew_is_weighed_again_and_pushes_others_out_but_not_itself(store: BudgetedStore[str, Block]) -> None:
    filled(store, "abc")
    grown = store.get("a")
    assert grown is not None
    grown.nbytes = 60
    assert store.nbytes == 90, "it is weighed when it is kept"
    store.keep("a", grown)
    assert kept(store) == "ac" and store.nbytes == 90


def test_what_alone_exceeds_the_budget_pushes_nothing_out(store: BudgetedStore[str, Block]) -> None:
    filled(store, "abc")
    store.keep("d", Block(101))
    assert kept(store) == "abc"


def test_the_latest_stays_where_the_store_keeps_it() -> None:
    store = BudgetedStore[str, Block](100, weight, keeps_latest=True)
    filled(store, "ab")
    store.keep("c", Block(500))
    assert kept(store) == "c" and store.nbytes == 500
    filled(store, "d")
    assert kept(store) == "d"


def test_their_number_is_bounded() -> None:
    store = BudgetedStore[str, Block](100, weight, most=2)
    filled(store, "abc", nbytes=0)
    assert kept(store) == "bc"


def test_values_shrink_before_any_is_dropped_the_longest_unused_first() -> None:
    def shrink(block: Block, excess: int) -> None:
        block.nbytes -= min(excess, block.nbytes - 10)

    store = BudgetedStore[str, Block](100, weight, shrink=shrink)
    filled(store, "abcd")
    assert kept(store) == "abcd" and [block.nbytes for block in store.values] == [10, 30, 30, 30]
    filled(store, "e", nbytes=90)
    assert [block.nbytes for block in store.values] == [10, 10, 10, 10, 60]
    filled(store, "fghijk", nbytes=25)
    assert "a" not in store and store.nbytes <= 100, "nothing is left to give up"


def test_values_out_of_date_are_not_kept() -> None:
    store = BudgetedStore[str, Block](100, weight, accepts=lambda block: block.nbytes != 13)
    store.keep("a", Block(13))
    assert store.once("b", lambda: Block(13)).nbytes == 13 and kept(store) == ""


# -- in use


def test_what_is_in_use_is_not_dropped_until_it_is_released(store: BudgetedStore[str, Block]) -> None:
    filled(store, "a")
    with store.in_use("a"), store.in_use("a"):
        filled(store, "bcd")
        assert kept(store) == "acd"
        store.keep("a", Block(200))
        assert kept(store) == "a" and store.nbytes == 200, "all others go"
    assert kept(store) == "", "it alone exceeds the budget"


def test_a_value_may_be_in_use_before_it_is_kept(store: BudgetedStore[str, Block]) -> None:
    with store.in_use("a"):
        filled(store, "abcd")
        assert kept(store) == "acd"
    filled(store, "e")
    assert kept(store) == "cde"


def test_forgetting_drops_what_is_in_use_too_and_nothing_else(store: BudgetedStore[str, Block]) -> None:
    filled(store, "abc")
    block = weakref.ref(store.values[0])
    with store.in_use("a"):
        store.forget(lambda key: key < "c")
        assert kept(store) == "c" and store.nbytes == 30
    gc.collect()
    assert block() is None


def test_who_is_told_may_use_other_stores_of_other_threads() -> None:
    """The lock is released by then: no two stores wait for each other."""
    told: list[str] = []
    store = BudgetedStore[str, Block](100, weight, on_drop=lambda key: told.append(reached(key)))

    def reached(key: str) -> str:
        with ThreadPoolExecutor(1) as pool:
            return key if pool.submit(lambda: kept(store)).result(timeout=5) else ""

    filled(store, "abcde")
    assert told == ["a", "b"]


# -- once for all who ask


def ask_together(n: int, ask: Callable[[], Block]) -> set[int]:
    start = threading.Barrier(n)

    def go() -> int:
        start.wait()
        return id(ask())

    with ThreadPoolExecutor(n) as pool:
        return {future.result() for future in [pool.submit(go) for _ in range(n)]}


@pytest.mark.parametrize("in_a_pool", [True, False])
def test_who_asks_at_the_same_time_shares_one(store: BudgetedStore[str, Block], in_a_pool: bool) -> None:
    made: list[Block] = []

    def make() -> Block:
        time.sleep(0.05)
        made.append(Block(30))
        return made[-1]

    with ThreadPoolExecutor(1) as pool:
        asked = (lambda: store.submit("a", pool, make).result()) if in_a_pool else (lambda: store.once("a", make))
        assert len(ask_together(10, asked)) == 1
        assert asked() is made[0] and len(made) == 1 and store.n_making == 0


def test_a_value_is_kept_before_it_is_handed_out(store: BudgetedStore[str, Block]) -> None:
    with ThreadPoolExecutor(1) as pool:
        for n in range(200):
            store.submit(f"{n}", pool, lambda: Block(30)).result()
            assert f"{n}" in store and store.n_making == 0


@pytest.mark.parametrize("in_a_pool", [True, False])
def test_a_failure_reaches_all_and_is_tried_again(store: BudgetedStore[str, Block], in_a_pool: bool) -> None:
    def fail() -> Block:
        raise ZeroDivisionError

    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                store.submit("a", pool, fail).result() if in_a_pool else store.once("a", fail)
        assert store.once("a", lambda: Block(1)).nbytes == 1


def test_who_is_not_admitted_begins_nothing_and_may_still_join(store: BudgetedStore[str, Block]) -> None:
    gate = threading.Event()

    def make() -> Block:
        assert gate.wait(10)
        return Block(1)

    def admit() -> None:
        if store.n_making >= 1:
            raise Busy("Full.")

    with ThreadPoolExecutor(1) as pool:
        first: Future[Block] = store.submit("a", pool, make, admit)
        with pytest.raises(Busy):
            store.submit("b", pool, make, admit)
        assert store.submit("a", pool, make, admit) is first and store.is_making("a") and not store.is_making("b")
        gate.set()
        assert first.result().nbytes == 1


# -- room


def test_room_is_made_and_stays_reserved_until_the_value_is_there(store: BudgetedStore[str, Block]) -> None:
    filled(store, "ab", nbytes=40)

    def make(key: str) -> Block:
        assert store.reserve(key, 60, seconds=0)
        assert not store.reserve("other", 50, seconds=0), "what is reserved is taken"
        assert kept(store) == "b", "nothing is dropped for what does not fit all the same"
        return Block(60)

    store.once("c", lambda: make("c"))
    assert kept(store) == "bc" and store.nbytes == 100 and not store.reserve("other", 101, seconds=0)


def test_room_is_waited_for_while_others_are_in_use(store: BudgetedStore[str, Block]) -> None:
    filled(store, "a", nbytes=80)
    with ThreadPoolExecutor(1) as pool:
        with store.in_use("a"):
            assert not store.reserve("b", 60, seconds=0.05)
            waiting = pool.submit(store.reserve, "b", 60, 10)
            time.sleep(0.05)
            assert not waiting.done()
        assert waiting.result(timeout=5) and kept(store) == ""


def test_room_reserved_for_what_failed_is_free_again(store: BudgetedStore[str, Block]) -> None:
    def fail() -> Block:
        assert store.reserve("a", 100, seconds=0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.once("a", fail)
    assert store.reserve("b", 100, seconds=0)
