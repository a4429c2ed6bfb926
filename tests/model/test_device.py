"""Where networks run. What needs a GPU is tested where PyTorch has one."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from model.address.parser import Address
from model.arch.gpt2 import network
from model.loading import load
from model.ops.update import Rate
from model.runtime.device import DeviceError, chosen
from model.runtime.language_model import LanguageModel
from model.runtime.learn import losses_along_slope
from model.runtime.run import Run
from tests.model.models import SHAPES, byte_tokenizer, error_of, random_network
from tests.model.test_explain import check, places

HAS_GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="PyTorch has no GPU here")

DEFAULT = "When Mary and John went to the store, John gave a drink to"
CLOSE = 1e-5  # of the tensor's largest number
CLOSE_SLOPES = 1e-4


def test_the_processor_and_a_gpu_where_there_is_one() -> None:
    assert chosen("cpu").type == "cpu"
    assert chosen("auto").type == ("cuda" if HAS_GPU else "cpu")


@pytest.mark.skipif(HAS_GPU, reason="PyTorch has a GPU here")
def test_a_gpu_asked_for_where_there_is_none() -> None:
    error = error_of(DeviceError, lambda: load("embedded", device="cuda"))
    assert "no GPU" in error.message and "auto" in error.hint


def test_on_the_processor_nothing_is_copied() -> None:
    model = load("embedded", device="cpu")
    assert model.capture.net is model.net
    run = model.run(DEFAULT)
    assert run.tensor("logits").device.type == run.gradient("embed").device.type == "cpu"


def test_a_network_on_another_device_has_weights_of_its_own() -> None:
    """On the `meta` device, which every PyTorch has and which holds no numbers."""
    net = random_network(SHAPES["small"][0])
    other = net.on(torch.device("meta"))
    assert net.on(torch.device("cpu")) is net
    assert {p.device.type for p in other.parameters()} == {"meta"}
    assert {p.device.type for p in net.parameters()} == {"cpu"}
    assert [p.shape for p in other.parameters()] == [p.shape for p in net.parameters()]
    assert not any(p.requires_grad for p in other.parameters())


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> LanguageModel:
    """A model on `meta`, where an op on tensors of two devices fails as on a GPU; what comes back from it is zeros."""
    monkeypatch.setattr(torch.Tensor, "cpu", lambda t: torch.zeros(t.shape, dtype=t.dtype) if t.is_meta else t)
    monkeypatch.setattr(network, "causal", lambda qk, d_head: qk + 0)  # it asks whether its numbers are finite
    config, scale = SHAPES["small"]
    return LanguageModel("small", random_network(config, scale), byte_tokenizer(300), device=torch.device("meta"))


def test_the_stand_in_sees_a_tensor_left_behind(stand_in: LanguageModel) -> None:
    with pytest.raises(RuntimeError):
        stand_in.capture.net.blocks[0](torch.zeros(1, 3, 16))


@torch.no_grad()
def test_every_tensor_is_taken_to_where_the_network_is(stand_in: LanguageModel) -> None:
    for whole in (2**30, 0):  # kept whole, and block by block
        run = stand_in.run("abc", "d", whole=whole)
        for site in ("logits", "blocks.1.attn.pattern", "blocks.0.mlp.post", "ln_final.out"):
            assert run.tensor(site).device.type == run.gradient(site).device.type == "cpu"
        assert run.changed(["W_E[4,1]=2", "blocks.0.attn.z[1,0,:]=0.5"]).tensor("logits").device.type == "cpu"
    for optimizer in ("sgd", "adamw"):
        stepped = stand_in.run("abc", "d").at_rate(Rate(0.01, optimizer))
        stepped.learning.take(2, with_slopes=True)
        assert stepped["W_E.step(2)"].shape == (300, 16)
    assert len(losses_along_slope(stand_in.run("abc", "d"), [0.0, 0.1])) == 2
    assert [len(list(stand_in.generate("abc", 3, use_cache=cached))) for cached in (True, False)] == [3, 3]


def two(name: str, target: str | None = None) -> tuple[Run, Run]:
    """The same text on the processor and on the GPU."""
    if name == "embedded":
        here, there = load(name, device="cpu"), load(name, device="cuda")
        return here.run(DEFAULT, target), there.run(DEFAULT, target)
    config, scale = SHAPES[name]
    here, there = (
        LanguageModel(name, random_network(config, scale), byte_tokenizer(config.d_vocab), device=torch.device(device))
        for device in ("cpu", "cuda")
    )
    return here.run("Two words", target), there.run("Two words", target)


def apart(a: np.ndarray, b: np.ndarray) -> float:
    finite = np.isfinite(b)
    assert np.array_equal(finite, np.isfinite(a))
    return float(np.abs(a - b)[finite].max(initial=0) / max(np.abs(b)[finite].max(initial=0), 1e-30))


@needs_gpu
@pytest.mark.parametrize("target", [None, "sequence"])
@pytest.mark.parametrize("name", ["embedded", "wide", "relu"])
def test_the_same_numbers_on_a_gpu(name: str, target: str | None) -> None:
    here, there = two(name, target)
    for node in here.model.graph.sites:
        assert apart(there[node.name], here[node.name]) <= CLOSE, node.name
        if node.name != "tokens" and node.short not in ("mean", "var", "scale"):
            assert apart(there[f"{node.name}.grad"], here[f"{node.name}.grad"]) <= CLOSE_SLOPES, node.name


@needs_gpu
@pytest.mark.parametrize("name", ["embedded", "wide", "relu"])
def test_a_gpus_numbers_are_explained(name: str) -> None:
    """Promise 2, which TF32 would break."""
    run = two(name)[1].at_rate(Rate(1e-3))
    for node in run.model.graph:
        for place in random.sample(places(run.shape(node.name), False, 4), 2) if run.shape(node.name) else [()]:
            check(run, str(Address(node.name, place)))
            if node.name != "tokens":
                check(run, str(Address(node.name, place, "grad")))
                check(run, str(Address(node.name, place, "step(2)")))


@needs_gpu
def test_learning_on_a_gpu() -> None:
    here, there = (run.at_rate(Rate(2e-4)) for run in two("embedded", " John"))
    assert there["loss.step(5)"] == pytest.approx(here["loss.step(5)"], rel=1e-3)
    etas = [-2e-4, 0.0, 2e-4]
    assert losses_along_slope(there, etas) == pytest.approx(losses_along_slope(here, etas), rel=1e-4)


@needs_gpu
def test_long_runs_and_generation_on_a_gpu() -> None:
    model = load("embedded", device="cuda")
    whole, long = model.run(DEFAULT), model.run(DEFAULT, whole=0)
    for site in ("blocks.1.attn.pattern", "logits", "blocks.0.mlp.pre.grad", "embed.grad"):
        assert apart(long[site], whole[site]) <= CLOSE_SLOPES, site
    made = [[step.token for step in model.generate(DEFAULT, 8, temperature=0, use_cache=cache)] for cache in (0, 1)]
    assert made[0] == made[1]
