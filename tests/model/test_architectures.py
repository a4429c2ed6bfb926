"""What every architecture says of itself holds for its networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.arch.base import AXES, Config
from model.arch.graph import Graph
from model.arch.registry import ARCHITECTURES, architecture_of
from model.runtime.capture import Capture, parameter_views
from tests.model.models import SHAPES as GPT2_SHAPES
from tests.model.models import random_model
from tests.model.test_llama import SHAPES as LLAMA_SHAPES

CONFIGS: list[Config] = [config for config, _ in GPT2_SHAPES.values()] + list(LLAMA_SHAPES.values())


def test_every_architecture_is_tried() -> None:
    assert {config.model_type for config in CONFIGS} == set(ARCHITECTURES)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_nodes_axes_parameters_and_stored_names_are_those_of_the_network(config: Config) -> None:
    architecture, graph = architecture_of(config), Graph(config)
    net = architecture.network(config)
    for p in net.parameters():
        torch.nn.init.zeros_(p)
    captured = Capture(net)([1, 2, 3])
    for node in graph:
        assert set(node.axes) <= AXES.keys()
        if node.name in captured:
            assert tuple(captured[node.name].shape[1:]) == graph.shape(node.name, 3), node.name
            assert not node.is_view
    assert captured.keys() <= {node.name for node in graph.sites}
    stored = dict(net.named_parameters())
    views = parameter_views(net)
    for node in graph.parameters:
        if node.is_view:
            continue
        assert tuple(views[node.name].shape) == graph.shape(node.name, 3), node.name
        under = stored[architecture.stored_under(node.name)]
        assert views[node.name].untyped_storage().data_ptr() == under.untyped_storage().data_ptr()
    assert views.keys() == {node.name for node in graph.parameters if not node.is_view}
    assert set(architecture.stored(config).names.values()) == stored.keys()
    assert architecture.n_parameters(config) == sum(p.numel() for p in stored.values())
    assert type(config).from_hf(config.to_hf(0)) == config


def test_a_heads_constant_is_what_it_adds_whatever_it_reads() -> None:
    run = random_model("small").run("one two")
    names = run.model.architecture.head_constant(run.model.config, 1)
    assert names is not None
    bias, weight = (run[name] for name in names)
    attn = "blocks.1.attn"
    brought = np.einsum("hqk,khc,hcm->qhm", run[f"{attn}.pattern"], run[f"{attn}.v"] - bias, weight)
    constant = np.einsum("hc,hcm->hm", bias, weight)
    np.testing.assert_allclose(brought + constant, run[f"{attn}.result"], atol=1e-5)
