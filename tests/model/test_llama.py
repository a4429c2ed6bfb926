"""The Llama family against transformers, and every number of its forward pass explained."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from transformers import LlamaConfig as HFConfig
from transformers import LlamaForCausalLM

from model.address.parser import parse
from model.address.trees import Address
from model.arch.llama.architecture import stored
from model.arch.llama.config import LlamaConfig
from model.arch.llama.network import Llama
from model.arch.registry import architecture_of, config_from
from model.errors import CheckpointError
from model.runtime.language_model import LanguageModel
from model.runtime.run import Run
from tests.model.models import byte_tokenizer

SHAPES = {
    "grouped": LlamaConfig(
        n_layer=2, n_head=4, n_key_value=2, d_model=32, head_dim=8, d_mlp=48, d_vocab=270, n_ctx=64, eps=1e-5
    ),
    "tied, all heads": LlamaConfig(
        n_layer=2, n_head=3, n_key_value=3, d_model=24, head_dim=8, d_mlp=40, d_vocab=270, n_ctx=64, tied=True
    ),
    "wide heads of one key": LlamaConfig(
        n_layer=1, n_head=4, n_key_value=1, d_model=16, head_dim=12, d_mlp=20, d_vocab=300, n_ctx=64, theta=500.0
    ),
}
TEXT = "When Mary and John went, John gave a drink"


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest) -> tuple[LanguageModel, LlamaForCausalLM]:
    """Ours and transformers' network on the same random weights."""
    config = SHAPES[request.param]
    settings = {k: v for k, v in config.to_hf(0).items() if k not in ("architectures", "model_type")}
    torch.manual_seed(1)
    theirs = LlamaForCausalLM(HFConfig(**settings, attn_implementation="eager")).float().eval()
    for name, p in theirs.named_parameters():
        torch.nn.init.normal_(p, 1.0 if "norm" in name else 0.0, 0.3)
    state = theirs.state_dict()
    net = Llama(config)
    net.load_state_dict({ours: state[name].clone() for name, ours in stored(config).names.items()})
    return LanguageModel("llama", net.eval(), byte_tokenizer(config.d_vocab)), theirs


@pytest.fixture(scope="module")
def run(pair: tuple[LanguageModel, LlamaForCausalLM]) -> Run:
    return pair[0].run(TEXT)


def test_logits_hidden_states_and_attention_are_those_of_transformers(
    pair: tuple[LanguageModel, LlamaForCausalLM], run: Run
) -> None:
    with torch.no_grad():
        theirs = pair[1](torch.tensor([run.tokens]), output_hidden_states=True, output_attentions=True)
    last = pair[0].config.n_layer - 1
    for n, hidden in enumerate(theirs.hidden_states[:-1]):  # the last one has passed the final norm
        close(run.tensor(f"blocks.{n}.resid_pre"), hidden[0])
    close(run.tensor("ln_final.out"), theirs.hidden_states[-1][0])
    close(run.tensor(f"blocks.{last}.attn.pattern"), theirs.attentions[last][0])
    close(run.tensor("logits"), theirs.logits[0])


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert float((ours - theirs).abs().max()) <= 2e-5 * float(theirs.abs().max())


def test_every_kind_of_number_is_explained_within_the_promise(run: Run) -> None:
    chance = random.Random(4)
    for node in run.model.graph:
        shape = run.shape(node.name)
        places = {tuple(0 for _ in shape), tuple(size - 1 for size in shape)}
        places |= {tuple(chance.randrange(size) for size in shape) for _ in range(6)}
        for place in places:
            e = run.explain(f"{node.name}[{','.join(map(str, place))}]" if place else node.name, limit=10**6)
            assert not e.fault, (e.address, e.difference, e.allowed)
            assert e.formula and e.plain and e.combine
            for term in e.terms:
                for factor in term.factors:
                    read = factor.address and float(run.values(factor.address))
                    assert factor.constant or read == pytest.approx(factor.value, rel=1e-6), (e.address, factor)


def test_what_reads_a_number_has_it_among_its_factors(run: Run) -> None:
    for name in ("ln1.ms", "attn.k", "attn.v", "attn.rot_k", "attn.q", "mlp.pre", "mlp.pre_linear", "attn.W_K"):
        site = f"blocks.0.{name}"
        address = f"{site}[{','.join('1' if size > 1 else '0' for size in run.shape(site))}]"
        readers = run.explain(address).used_by
        assert readers
        for reader in map(parse, readers):
            assert isinstance(reader, Address)
            for end in (0, -1):
                index = tuple(
                    i if isinstance(i, int) else range(*i.indices(size))[end]
                    for i, size in zip(reader.index, run.shape(reader.site), strict=True)
                )
                factors = run.explain(str(Address(reader.site, index)), limit=10**6).terms
                assert address in {factor.address for term in factors for factor in term.factors}, (address, reader)


def test_a_heads_share_adds_up_to_attentions_update(run: Run) -> None:
    np.testing.assert_allclose(run["blocks.0.attn.result"].sum(1), run["blocks.0.attn_out"], atol=1e-5)


def test_the_config_is_written_as_it_is_read_and_counts_its_parameters(
    pair: tuple[LanguageModel, LlamaForCausalLM],
) -> None:
    config = pair[0].config
    assert LlamaConfig.from_hf(pair[1].config.to_dict()) == config
    assert LlamaConfig.from_hf(config.to_hf(0)) == config
    assert architecture_of(config).n_parameters(config) == sum(p.numel() for p in pair[1].parameters())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "llama3"),
        ({"num_key_value_heads": 3}, "key-value heads"),
        ({"head_dim": 7}, "pairs"),
    ],
)
def test_what_would_change_the_arithmetic_is_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(CheckpointError, match=named):
        LlamaConfig.from_hf(SHAPES["grouped"].to_hf(0) | change)


def test_its_checkpoints_are_refused_until_its_backward_pass_is_there() -> None:
    with pytest.raises(CheckpointError, match="llama"):
        config_from(SHAPES["grouped"].to_hf(0))
