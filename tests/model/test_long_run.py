"""Runs kept by their residual stream alone: what is computed again is what a whole run captured, at every address."""

from __future__ import annotations

import random
import threading
from functools import cache

import numpy as np
import pytest
import torch

from model.address.parser import Address
from model.errors import AddressError
from model.loading import load
from model.runtime.long_run import LongRun, LongTextError
from model.runtime.run import Run
from model.runtime.scratch import Scratch
from tests.model.models import error_of, random_model
from tests.model.test_explain import NAMES, TEXTS, check, places

TARGETS = [None, "sequence"]


def made(name: str, target: str | None, *, whole: int, text: str = "") -> Run:
    model = load(name) if name in TEXTS else random_model(name)
    return model.run(text or TEXTS.get(name, "Two words, 🙂"), target, whole=whole)


@cache
def pair(name: str, target: str | None) -> tuple[Run, LongRun]:
    """The same text run whole, and kept by its stream with room for a part of one block."""
    whole, long = made(name, target, whole=2**40), made(name, target, whole=0)
    assert isinstance(long, LongRun) and not isinstance(whole, LongRun)
    long._scratch.most //= 6
    return whole, long


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_values_are_the_same_bits(name: str, target: str | None) -> None:
    """Read in any order, as whole tensors and as single rows."""
    whole, long = pair(name, target)
    sites = [node.name for node in whole.model.graph]
    for site in random.sample(sites, len(sites)):
        assert torch.equal(long.tensor(site), whole.tensor(site)), site
        for place in places(whole.shape(site), False, 3):
            assert long.values(Address(site, place)) == whole.values(Address(site, place)), (site, place)
    assert long.top(5) == whole.top(5)
    assert long.target == whole.target


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_the_same_to_rounding(name: str, target: str | None) -> None:
    """The way back adds in another order where it is cut at the blocks: float32 rounding of the largest is allowed."""
    whole, long = pair(name, target)
    sites = [node.name for node in whole.model.graph if node.name != "tokens"]
    for site in random.sample(sites, len(sites)):
        ours, theirs = long[f"{site}.grad"], whole[f"{site}.grad"]
        largest = np.abs(theirs).max()
        if site.endswith("b_K"):  # moving all keys alike changes no softmax: its terms cancel, but for rounding
            largest = np.abs(whole[site.replace("b_K", "k.grad")]).sum(0).max()
        assert np.abs(ours - theirs).max() <= 2e-6 * largest, site
        for place in places(whole.shape(site), False, 0):
            assert float(long.values(Address(site, place, "grad"))) == pytest.approx(float(ours[place]), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_number_is_explained(name: str) -> None:
    """Promise 2, forward and back: over 2,000 random addresses in all models together."""
    n = 0
    for target in TARGETS:
        long = made(name, target, whole=0)
        for node in long.model.graph:
            for quantity in ("", "grad")[: 2 - (node.name == "tokens")]:
                place = tuple(random.randrange(size) for size in long.shape(node.name))
                check(long, str(Address(node.name, place, quantity)))
                n += 1
    assert n > 150


@pytest.mark.parametrize("name", ["embedded", "relu"])
def test_what_is_set_is_set_once(name: str) -> None:
    """Numbers set or moved: at a block's edge, inside, in weights, at the logits; the same bits as in a whole run."""
    whole, long = pair(name, None)
    for changes in (
        ["blocks.1.resid_pre[1,2]+=0.5", "blocks.0.resid_post[0,1]=2"],
        ["blocks.0.attn.pattern[0,2,1]=0.25", "blocks.1.mlp.post[:,3]=0"],
        ["embed[1,0]+=1", "ln_final.out[2,3]=1", "logits[2,5]=3"],
        ["W_E[5,1]+=0.5", "blocks.1.attn.W_Q[0,1,1]=1", "blocks.0.mlp.b_in[2]=0.1", "ln_final.w[0]=2", "W_pos[1,1]=1"],
    ):
        a, b = whole.changed(changes), long.changed(changes)
        assert b.is_long and not a.is_long
        for node in a.model.graph:
            assert torch.equal(a.tensor(node.name), b.tensor(node.name)), (changes, node.name)
        check(b, f"logits[2,{b.target}]")
        error_of(AddressError, b.explain, "logits[0,0].grad")


def test_little_is_kept() -> None:
    """Between readings the stream, its slopes and the logits; what is computed again within its room, and counted."""
    text = "the words that a reader wrote " * 2
    whole, long = (made("wide", None, whole=whole, text=text) for whole in (2**40, 0))
    assert isinstance(long, LongRun)
    c, n = long.model.config, long.n_pos
    row = 4 * n * c.d_model
    out = 4 * n * c.d_vocab
    kept = (c.n_layer + 1) * row + out  # the stream and the logits
    own = kept + 5 * row  # and what stands at the ends: embeddings, the final norm
    assert kept < long.nbytes <= own + long._scratch.nbytes
    for run in (whole, long):
        for node in run.model.graph.sites:
            run.tensor(node.name)
            if node.name != "tokens":
                run.gradient(node.name)
            if run is long:
                assert run._scratch.nbytes <= run._scratch.most
    slopes = (c.n_layer + 4) * row
    assert long._scratch.nbytes > 0.4 * long._scratch.most
    assert long.nbytes <= own + slopes + long._scratch.nbytes + 100 * n
    held = long._scratch.nbytes
    before = long.nbytes
    long.shed(held // 2)
    assert held // 4 < long._scratch.nbytes <= held - held // 2
    assert before - long.nbytes == held - long._scratch.nbytes
    long.shed(2**40)
    assert long._scratch.nbytes == 0
    assert long.nbytes < whole.nbytes / 4
    check(long, "blocks.1.attn.scores[1,5,3].grad")


def test_slopes_are_found_only_as_far_back_as_asked() -> None:
    long = made("wide", None, whole=0)
    long.gradient("blocks.2.mlp.post")
    assert "blocks.2.resid_pre" in long._slopes and "blocks.1.resid_pre" not in long._slopes
    long.gradient("embed")
    assert "blocks.0.resid_pre" in long._slopes


def test_steps_are_refused_with_their_cost() -> None:
    long = made("small", None, whole=0)
    for at in ("loss.step", "W_E[1,1].step(2)", "W_E[0,0].m(1)", "logits[0,0].grad(1)"):
        refused = error_of(LongTextError, long.explain, at)
        assert f"{long.n_pos} tokens" in refused.message and "MB" in refused.message
    refused = error_of(LongTextError, lambda: long.learning)
    assert "shorten the text" in refused.hint
    assert long.steps_taken == 0


def test_a_fault_is_named() -> None:
    long = made("small", None, whole=0)
    assert long.first_fault() is None
    with torch.no_grad():
        model = made("relu", None, whole=0).model
        stored = model.net.get_parameter("blocks.1.mlp.b_in")
        before = stored[3].item()
        try:
            stored[3] = float("nan")
            assert model.run("some text", whole=0).first_fault() == "blocks.1.mlp.pre"
        finally:
            stored[3] = before


def test_many_threads_read_the_same_numbers() -> None:
    whole, long = pair("embedded", "sequence")
    asked = [f"blocks.{n % 2}.{site}" for n, site in enumerate(["attn.exp", "mlp.post", "attn.z", "ln2.out"] * 4)]
    found: list[bool] = []

    def read(site: str) -> None:
        same = np.array_equal(long[site], whole[site])
        close = np.allclose(long[f"{site}.grad"], whole[f"{site}.grad"], rtol=1e-4, atol=1e-7)
        found.append(same and close)

    threads = [threading.Thread(target=read, args=(site,)) for site in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * len(asked)


def test_scratch_drops_what_was_not_read_for_longest() -> None:
    scratch = Scratch(40)
    scratch.put({"a": torch.zeros(4), "b": torch.zeros(4)})
    assert scratch.get("a") is not None
    scratch.put({"c": torch.zeros(4)})
    assert scratch.get("b") is None and scratch.get("a") is not None and scratch.nbytes == 32
    scratch.put({"whole": torch.zeros(100)})  # larger than all room
    assert scratch.get("a") is None and scratch.nbytes == 400
    part = torch.zeros(100)[:3]
    scratch.put({"part": part})
    held = scratch.get("part")
    assert held is not None and held.untyped_storage().nbytes() == 12 and scratch.nbytes == 12
    scratch.put({"part": torch.ones(5)})
    assert scratch.nbytes == 20
    scratch.drop("part", "unknown")
    assert scratch.nbytes == 0


def test_scratches_share_the_room_of_the_largest() -> None:
    """Room is made in the longest unused first; a small one does not drive out what fits beside it."""
    most = 2**40  # larger than any that other tests left
    first, second, third = Scratch(most), Scratch(most), Scratch(40)
    quarter = torch.zeros(1).expand(2**36)  # no memory of its own, but its size counts
    sizes = quarter.nbytes
    assert sizes == most // 4
    for scratch in (first, second):
        scratch._held["held"] = scratch._held["more"] = quarter
        scratch.nbytes = 2 * sizes
    third.make_room(16)
    assert first.nbytes == sizes and second.nbytes == 2 * sizes
    second.make_room(sizes)
    assert first.nbytes + second.nbytes + sizes <= most
    assert second.nbytes == 2 * sizes and first.nbytes <= sizes
    second.make_room(most)
    assert first.nbytes == 0 == second.nbytes
