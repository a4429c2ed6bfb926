"""Learning steps against plain PyTorch loops on transformers' GPT-2; nudges and changes against the slopes."""

from __future__ import annotations

import gc
import random
import threading

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from model.address.parser import Address
from model.address.patch import PatchError
from model.arch.gpt2.architecture import hf_names
from model.arch.gpt2.network import GPT2
from model.errors import AddressError
from model.loading import load
from model.ops.update import Rate
from model.runtime.capture import parameter_views
from model.runtime.learn import RateError, losses_along_slope, suggested_rate
from model.runtime.nudge import nudges
from model.runtime.run import Run
from tests.model.models import error_of, random_model
from tests.model.test_explain import check, places

DEFAULT = "When Mary and John went to the store, John gave a drink to"


def start_of(name: str, target: str | None = None) -> Run:
    text = {"toy": "the cat sat", "embedded": DEFAULT}.get(name, "Two words")
    return (load(name) if name in ("toy", "embedded") else random_model(name)).run(text, target)


def plain_loop(run: Run, rate: Rate, k: int) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Weights by our names and the losses before each step and after the last, by PyTorch's own optimizer."""
    c = run.model.config
    settings = {k: v for k, v in c.to_hf(start_id=0).items() if k not in ("architectures", "model_type")}
    theirs = GPT2LMHeadModel(GPT2Config(**settings, attn_implementation="eager")).eval()
    state, names = run.model.net.state_dict(), hf_names(c)
    theirs.load_state_dict({f"transformer.{h}": state[o].clone() for h, o in names.items()}, strict=False)
    theirs.tie_weights()
    if rate.optimizer == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(theirs.parameters(), lr=rate.eta)
    else:
        optimizer = torch.optim.AdamW(theirs.parameters(), lr=rate.eta, weight_decay=rate.decay)
    losses = []
    for step in range(k + 1):
        logits = theirs(torch.tensor([run.tokens])).logits[0]
        goals = torch.tensor([run.next_token(t) for t in run.scored])
        loss = torch.nn.functional.cross_entropy(logits[run.scored.start : run.scored.stop], goals)
        losses.append(loss.item())
        if step < k:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    mirror = GPT2(c)
    after = dict(theirs.named_parameters())
    mirror.load_state_dict({ours: after[f"transformer.{h}"].detach() for h, ours in names.items()})
    return parameter_views(mirror), losses


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize(
    ("name", "rate", "target"),
    [
        ("toy", Rate(0.01), None),
        ("embedded", Rate(2e-4), " John"),
        ("wide", Rate(1e-3), "sequence"),
        ("toy", Rate(1e-3, "adamw"), None),
        ("embedded", Rate(1e-4, "adamw"), " John"),
        ("small", Rate(1e-3, "adamw"), "sequence"),
    ],
)
def test_steps_equal_a_plain_loop(name: str, rate: Rate, target: str | None, k: int) -> None:
    run = start_of(name, target).at_rate(rate)
    weights, losses = plain_loop(run, rate, k)
    run.learning.take(k)
    assert [float(r["loss"]) for r in run.learning.runs[: k + 1]] == pytest.approx(losses, rel=2e-3, abs=1e-4)
    for parameter, expected in weights.items():
        moved = float((expected - torch.tensor(run[parameter])).abs().max())
        off = np.abs(run[f"{parameter}.step({k})"] - expected.numpy())
        if rate.optimizer == "adamw":  # it divides by a slope's own size: where that is but rounding, so is the step
            slope = np.abs(run[f"{parameter}.grad"])
            clear = slope > max(1e-2 * float(slope.max()), 1e-5)
            assert off.max() <= 2.2 * k * rate.eta, parameter
            off = off[clear] if clear.any() else np.zeros(1)
        assert off.max() <= 0.02 * moved + 1e-6, parameter


@pytest.mark.parametrize("rate", [Rate(2e-3), Rate(1e-3, "adamw")])
@pytest.mark.parametrize("name", ["toy", "embedded", "relu"])
def test_every_kind_of_step(name: str, rate: Rate) -> None:
    """Weights after steps, and the runs and slopes after steps, are explained like everything else."""
    run = start_of(name).at_rate(rate)
    for node in run.model.graph:
        if node.name == "tokens":
            continue
        for place in places(run.shape(node.name), False, 1)[:2]:
            for quantity in ["step", "step(3)", "grad(2)", *(["m(3)", "v(3)"] * (rate.optimizer == "adamw"))]:
                if node.is_parameter or quantity[0] not in "mv":
                    check(run, str(Address(node.name, place, quantity)))


def test_the_default_rate_lowers_the_loss() -> None:
    for target in (None, " John", " the", "sequence"):
        run = start_of("embedded", target)
        run.learning.take(1)
        assert float(run["loss.step"]) < float(run["loss"])
        assert suggested_rate(run) == run.rate


def test_ten_default_steps_on_the_default_sentence() -> None:
    run = start_of("embedded", " Mary")
    run.learning.take(10)
    assert float(run[f"probs[{run.n_pos - 1},{run.target}].step(10)"]) > 0.9


def test_the_curve_along_the_slope() -> None:
    run = start_of("embedded", " John").at_rate(Rate(2e-4))
    losses = losses_along_slope(run, [-2e-4, 0.0, 2e-4])
    assert losses[1] == pytest.approx(float(run["loss"]), rel=1e-6)
    assert losses[2] == pytest.approx(float(run["loss.step"]), rel=1e-5)
    assert losses[0] > losses[1] > losses[2]


def test_work_can_be_stopped_and_leaves_what_was() -> None:
    run = start_of("embedded", " John").at_rate(Rate(1e-4))
    run.learning.take(2)

    def stop(step: int) -> None:
        if step == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run.learning.take(8, stop)
    assert len(run.learning.runs) == 3
    assert run["loss.step(2)"]


def test_the_start_is_left_as_it_was() -> None:
    run = start_of("embedded")
    before = {name: p.clone() for name, p in run.model.net.state_dict().items()}
    run.learning.take(3)
    assert all(torch.equal(before[name], p) for name, p in run.model.net.state_dict().items())


def test_bad_rates_and_steps_are_named() -> None:
    run = start_of("toy")
    for eta in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RateError, match="η"):
            _ = run.at_rate(Rate(eta)).learning
    assert "limit is 50" in error_of(AddressError, run.explain, "loss.step(51)").message
    assert "AdamW" in error_of(AddressError, run.explain, "W_E[0,0].m(1)").message
    assert "no parameter" in error_of(AddressError, run.explain, "logits[0,0].v(1)").message


# -- nudges


@pytest.mark.parametrize("name", ["embedded", "wide"])
def test_nudges_come_to_the_slope(name: str) -> None:
    run = start_of(name, "sequence")
    for site in (
        "W_E",
        "blocks.0.attn.W_Q",
        "blocks.1.resid_mid",
        "blocks.0.mlp.post",
        "logits",
        "blocks.1.attn.scores",
    ):
        slopes = np.abs(run[f"{site}.grad"])
        place = tuple(int(i) for i in np.unravel_index(int(slopes.argmax()), slopes.shape))
        found = nudges(run, str(Address(site, place)))
        best = min(found, key=lambda n: abs(n.secant - n.slope))
        assert best.secant == pytest.approx(best.slope, rel=0.02), site
        assert not found[0].is_lost or abs(found[0].slope) < 1e-4
        assert found[-1].is_lost, "a millionth is too small a nudge for float32"


def test_derived_numbers_cannot_be_nudged() -> None:
    run = start_of("toy")
    assert "derived" in error_of(PatchError, nudges, run, "probs[0,0]").message


# -- what if


def test_a_change_equals_the_same_change_in_plain_pytorch() -> None:
    run = start_of("embedded")
    for change, site, place, value in [
        ("blocks.1.attn.z[:,2,:]=0", "blocks.1.attn.z", (slice(None), 2), 0.0),
        ("blocks.0.mlp.post[:,7]=1.5", "blocks.0.mlp.post", (slice(None), 7), 1.5),
        ("blocks.2.mlp_out=0", "blocks.2.mlp_out", (slice(None),), 0.0),
        ("ln_final.scale[3]=2", "ln_final.scale", (3,), 2.0),
    ]:
        net = GPT2(run.model.config)
        net.load_state_dict(run.model.net.state_dict())

        def hook(_m: object, _i: object, out: torch.Tensor, place: tuple = place, value: float = value) -> torch.Tensor:
            out = out.clone()
            out[0][place] = value
            return out

        net.get_submodule(site).register_forward_hook(hook)
        with torch.no_grad():
            expected = net(torch.tensor([run.tokens]))[0].numpy()
        changed = run.changed([change])
        assert np.allclose(changed["logits"], expected, atol=1e-4)
        assert changed.target == run.target


def test_a_changed_run_is_explained_too() -> None:
    run = start_of("relu").changed(["blocks.0.attn.z[1,2,:]=0.5", "blocks.1.resid_mid[2,3]+=1", "W_E[4,1]=2"])
    assert "Set to 0.5" in run.explain("blocks.0.attn.z[1,2,5]").notes[0]
    moved = run.explain("blocks.1.resid_mid[2,3]")
    assert [t.product for t in moved.terms][-1] == 1.0 and not moved.fault
    assert run.explain("W_E[4,1]").value == 2.0
    for node in run.model.graph:
        for place in random.sample(places(run.shape(node.name), False, 3), 2) if run.shape(node.name) else [()]:
            check(run, str(Address(node.name, place)))


def test_changes_that_cannot_be_made_are_named() -> None:
    run = start_of("toy")
    for change, says in [
        ("loss=1", "derived"),
        ("probs[0,0]=1", "derived"),
        ("W_U[0,0]=1", "W_E"),
        ("blocks.0.attn.z[0,0,0]=nan", "number"),
        ("blocks.0.attn.z[0,0,0]", "no number"),
        ("blocks.0.attn.z[0,0,0]=1e9", "number"),
        ("W_E[0,0].grad=1", "computed"),
        ("calc(loss)=1", "computed"),
    ]:
        assert says in error_of(PatchError, run.changed, [change]).message
    assert "too many" in error_of(PatchError, run.changed, ["W_E[0,0]=0"] * 17).message
    assert "out of range" in error_of(AddressError, run.changed, ["W_E[99,0]=0"]).message
    changed = run.changed(["W_E[0,0]=0"])
    assert "were set" in error_of(AddressError, changed.explain, "W_E[0,0].grad").message


@pytest.mark.parametrize("change", ["W_E[4,1]=2", "blocks.0.mlp.W_in[3,5]=1"])
def test_a_run_on_changed_weights_is_seen_by_no_other_thread(change: str) -> None:
    start = start_of("small")
    seen: list[np.ndarray] = []

    def elsewhere() -> np.ndarray:
        """The start's logits as a thread of its own computes them: how many cores work is set for each thread."""
        found: list[np.ndarray] = []
        other = threading.Thread(target=lambda: found.append(start_of("small")["logits"]))
        other.start()
        other.join()
        return found[0]

    undisturbed = elsewhere()

    def meanwhile(_module: torch.nn.Module, _inputs: object, _output: object) -> None:
        if not seen and threading.current_thread() is threading.main_thread():
            seen.append(elsewhere())

    with torch.nn.modules.module.register_module_forward_hook(meanwhile):
        changed = start.changed([change])
    assert np.array_equal(seen[0], undisturbed)
    assert not np.array_equal(changed["logits"], start["logits"])


def test_slopes_after_steps_are_those_of_the_moved_weights() -> None:
    """Of a run after steps, asked directly, whether or not its slopes were wanted when the steps were taken."""
    run = start_of("small", "sequence").at_rate(Rate(0.05))
    run.learning.take(2)
    after = run.learning.runs[2]
    assert not after.has_slopes
    found = after.gradient("embed").clone()
    assert torch.equal(found, torch.tensor(run["embed.grad(2)"]))
    assert not torch.allclose(found, run.gradient("embed"), rtol=1e-3)


def test_more_steps_go_on_from_those_kept() -> None:
    run = start_of("embedded", " John").at_rate(Rate(1e-4))
    run.learning.take(2)
    first = run.learning.runs[:]
    run.learning.take(4)
    assert all(a is b for a, b in zip(first, run.learning.runs, strict=False)) and len(run.learning.runs) == 5
    again = start_of("embedded", " John").at_rate(Rate(1e-4))
    again.learning.take(4)
    assert np.array_equal(run["loss.step(4)"], again["loss.step(4)"])


def test_the_scratch_copy_is_freed_with_the_steps() -> None:
    """By counting references, without a garbage collection: the copy is as large as the model."""
    run = start_of("small").at_rate(Rate(1e-3))
    gc.collect()
    gc.disable()
    try:
        before = {id(m) for m in gc.get_objects() if type(m) is GPT2}
        run.learning.take(2)
        assert {id(m) for m in gc.get_objects() if type(m) is GPT2} <= before
    finally:
        gc.enable()
