"""The way back: every gradient explained, and captured ones against transformers, autograd and finite differences."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
import torch

from model.address.parser import Address, parse
from model.arch.gpt2.architecture import hf_names
from model.arch.gpt2.network import GPT2
from model.errors import AddressError
from model.runtime.capture import Capture, parameter_views
from model.runtime.run import Run
from tests.model.models import SHAPES, error_of, random_model, twin
from tests.model.test_explain import NAMES, check, covers, places, run_of

TARGETS = [None, "sequence"]


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_gradient(name: str) -> None:
    """Random and corner places of every site and parameter: over 5,000 addresses in all models together."""
    for target in TARGETS:
        run = run_of(name, target)
        for node in run.model.graph:
            if node.name != "tokens":
                for place in places(run.shape(node.name), node.axes[1:] == ("query", "key"), 8):
                    check(run, str(Address(node.name, place, "grad")))


def test_gpt2s_own_shape() -> None:
    run = random_model("gpt2").run("A few words, to be read.")
    for node in run.model.graph:
        if node.name != "tokens":
            check(run, str(Address(node.name, places(run.shape(node.name), False, 1)[-1], "grad")))


def oracle(run: Run) -> dict[str, torch.Tensor]:
    """Every parameter's gradient by a full backward pass of transformers' GPT-2 on the same weights, by our names."""
    c = run.model.config
    theirs, names = twin(run.model.net), hf_names(c)
    logits = theirs(torch.tensor([run.tokens])).logits[0]
    goals = torch.tensor([run.next_token(t) for t in run.scored])
    torch.nn.functional.cross_entropy(logits[run.scored.start : run.scored.stop], goals).backward()
    grads = dict(theirs.named_parameters())
    mirror = GPT2(c)
    mirror.load_state_dict({ours: grads[f"transformer.{h}"].grad for h, ours in names.items()})
    return parameter_views(mirror)


@pytest.mark.parametrize(("name", "target"), [*product(NAMES, TARGETS), ("gpt2", None)])
def test_parameters_equal_transformers_backward(name: str, target: str | None) -> None:
    run = random_model("gpt2").run("Some words", target) if name == "gpt2" else run_of(name, target)
    for parameter, expected in oracle(run).items():
        ours = run[f"{parameter}.grad"]
        largest = float(expected.abs().max())
        if parameter.endswith("b_K"):  # moving all keys alike changes no softmax: its terms cancel, but for rounding
            largest = float(np.abs(run[parameter.replace("b_K", "k.grad")]).sum(0).max())
        assert np.abs(ours - expected.numpy()).max() <= 1e-4 * largest, parameter


def loss_in_float64(run: Run, nudged: str, place: tuple[int, ...], by: float) -> float:
    """The loss with one activation or weight changed, all in float64, apart from the code under test."""
    net = GPT2(run.model.config).double()
    net.load_state_dict({k: v.double() for k, v in run.model.net.state_dict().items()})
    if nudged in run.model.graph and run.model.graph[nudged].is_parameter:
        parameter_views(net)[nudged][place] += by
    else:

        def nudge(_module: object, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            changed = output.clone()
            changed[(0, *place)] += by
            return changed

        net.get_submodule(nudged).register_forward_hook(nudge)
    with torch.no_grad():
        log_p = net(torch.tensor([run.tokens]))[0].log_softmax(-1)
    return float(-np.mean([float(log_p[t, run.next_token(t)]) for t in run.scored]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["toy", "embedded", "small", "relu"])
def test_equals_finite_differences(name: str, target: str | None) -> None:
    run = run_of(name, target)
    hooked = {site for site, _ in run.model.net.named_modules()}
    kinds = [n for n in run.model.graph if n.name in hooked or (n.is_parameter and n.name != "W_U")]
    kinds = [n for n in kinds if n.short not in ("mean", "var", "scale")] + [n for n in kinds if n.short == "scale"]
    for node in random.sample(kinds, min(len(kinds), 25)):
        place = tuple(random.randrange(size) for size in run.shape(node.name))
        if node.short == "scores" and place[2] > place[1]:
            continue
        h = 1e-5
        secant = (loss_in_float64(run, node.name, place, h) - loss_in_float64(run, node.name, place, -h)) / (2 * h)
        slope = float(run.values(Address(node.name, place, "grad")))
        largest = float(np.abs(run[f"{node.name}.grad"]).max())
        assert slope == pytest.approx(secant, rel=2e-3, abs=1e-4 * largest + 1e-8), (node.name, place)


@pytest.mark.parametrize("name", NAMES)
def test_walks_down_the_gradients_end(name: str) -> None:
    """From any weight's slope, following the upstream slopes reaches the loss, whose slope is 1."""
    for target in TARGETS:
        run = run_of(name, target)
        for _ in range(12):
            node = random.choice([n for n in run.model.graph if n.name not in ("tokens", "W_U", "log_probs")])
            at = str(Address(node.name, tuple(random.randrange(s) for s in run.shape(node.name)), "grad"))
            for _ in range(60 + 40 * run.model.config.n_layer):
                e = run.explain(at, limit=400, order="size")
                upstream = [f.address for t in e.terms for f in t.factors if f.address and f.address.endswith(".grad")]
                if not upstream:
                    break
                at = random.choice(upstream[:6])
            assert at == "loss.grad" or run.explain(at).n_terms == 0, at


@pytest.mark.parametrize("name", NAMES)
def test_at_the_logits_it_is_predicted_minus_actual(name: str) -> None:
    run = run_of(name)
    last = run.n_pos - 1
    expected = run["probs"][last].astype(np.float64)
    expected[run.target] -= 1
    assert run["logits.grad"][last] == pytest.approx(expected, abs=3e-6)
    assert not run["logits.grad"][:last].any()
    e = run.explain(f"logits[{last},{run.target}].grad")
    assert [round(t.product, 5) for t in e.terms] == [pytest.approx(run["probs"][last, run.target], abs=1e-5), -1.0]


def test_the_tied_table_shows_both_uses() -> None:
    run = run_of("toy", "sequence")
    e = run.explain("W_E[2,1].grad", limit=50)
    as_input = sum(t.product for t in e.terms if t.label == "as embedding")
    as_output = sum(t.product for t in e.terms if t.label == "as unembedding")
    assert as_input and as_output
    assert as_input + as_output == pytest.approx(e.value, rel=1e-5)
    assert float(run["W_U[1,2].grad"]) == float(run["W_E[2,1].grad"])


def test_a_probability_too_small_for_float32_still_has_a_slope() -> None:
    model = random_model("small")
    logits = model.run("abc").tensor("logits").clone()
    far = int(logits[-1].argmin())
    net_row = model.net.W_E.data[far].clone()
    try:
        model.net.W_E.data[far] = -200 * model.run("abc").tensor("ln_final.out")[-1]
        run = model.run("abc", f"id:{far}")
        assert float(run["probs"][-1, far]) < 1e-38
        assert np.isfinite(run["logits.grad"]).all()
        for site in ("logits", "log_probs", "probs", "ln_final.out"):
            check(run, f"{site}[{run.n_pos - 1},{5}].grad")
        check(run, f"log_probs[{run.n_pos - 1},{far}].grad")
        assert float(run["logits.grad"][-1, far]) == pytest.approx(-1.0)
    finally:
        model.net.W_E.data[far] = net_row


def test_slices_of_a_parameters_gradient() -> None:
    run = run_of("wide")
    for name in ("W_E", "W_pos", "blocks.1.attn.W_K", "blocks.0.mlp.W_in", "ln_final.w", "blocks.1.attn.b_O", "W_U"):
        whole = run[f"{name}.grad"]
        assert whole.shape == run.shape(name)
        assert np.allclose(run[f"{name}[2].grad"], whole[2], rtol=1e-4, atol=1e-7)
        if whole.ndim > 1:
            assert np.allclose(run[f"{name}[1:4,3].grad"], whole[1:4, 3], rtol=1e-4, atol=1e-7)


def test_gradients_say_whose_factor_they_are() -> None:
    run = run_of("relu")
    for node in run.model.graph.sites:
        if node.name in ("tokens", "loss", "log_probs") or node.short in ("exp", "result"):
            continue
        at = Address(node.name, tuple(s // 2 for s in run.shape(node.name)), "grad")
        for term in run.explain(str(at), limit=30).terms:
            for factor in term.factors:
                source = parse(factor.address) if factor.address else None
                if isinstance(source, Address) and source.quantity == "grad" and source.site != "loss":
                    back = run.explain(str(source), limit=1).used_by
                    plain = Address(at.site, at.index)
                    same_site = [b for b in back if b.startswith(at.site + "[")]
                    assert at.site.endswith("scores") or any(
                        covers(b.removesuffix(".grad"), plain) for b in same_site
                    ), (str(at), back)


def test_what_has_no_gradient_says_why() -> None:
    run = run_of("toy")
    assert "not a quantity" in error_of(AddressError, run.explain, "tokens[0].grad").message
    assert "one for one" in run.explain("loss.grad").notes[0]
    assert "mask" in run.explain("blocks.0.attn.qk[0,0,2].grad").notes[0]
    assert "view beside" in run.explain("log_probs[0,0].grad").notes[0]
    assert "ends at position" in run.explain("W_pos[7,0].grad").notes[0]


@pytest.mark.parametrize("name", SHAPES)
def test_values_and_slopes_take_memory_that_is_counted(name: str) -> None:
    run = random_model(name).run("some text")
    before = run.nbytes
    run.gradient("embed")
    assert run.nbytes > 1.8 * before


@pytest.mark.parametrize(("name", "target"), [*product(NAMES, TARGETS)])
def test_slopes_of_all_sites_equal_autograds(name: str, target: str | None) -> None:
    """The way back by hand against a tape of the whole network in float64."""
    run = run_of(name, target)
    net = GPT2(run.model.config).double()
    net.load_state_dict({k: v.double() for k, v in run.model.net.state_dict().items()})
    capture = Capture(net)
    with capture.recording() as taped:
        log_p = net(torch.tensor([run.tokens]))[0].log_softmax(-1)
    loss = torch.stack([-log_p[t, run.next_token(t)] for t in run.scored]).mean()
    for site, expected in zip(taped, torch.autograd.grad(loss, list(taped.values())), strict=True):
        largest = float(expected.abs().max())
        if site.endswith((".mean", ".var", ".scale")):  # sums over a row in which most may cancel
            normalized = run[f"{site.rpartition('.')[0]}.normalized.grad"]
            largest = max(largest, float(np.abs(normalized).sum(-1).max()))
        assert np.abs(run[f"{site}.grad"] - expected[0].numpy()).max() <= 1e-4 * largest + 1e-12, site


def test_a_run_with_numbers_set_is_refused() -> None:
    with pytest.raises(ValueError, match="set"):
        run_of("toy").changed(["blocks.0.attn.z[0,0,0]=1"]).gradient("embed")
