"""The network against transformers' GPT-2 (eager attention) on the same random weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config as HFConfig
from transformers import GPT2LMHeadModel

from model.arch.gpt2.config import GPT2Config
from model.runtime.language_model import LanguageModel
from model.toy import save_toy, toy
from model.weights.checkpoints import load_network, read_config, save_network
from tests.model.models import GPT2_SMALL, SHAPES, byte_tokenizer, random_model, random_network, twin

CONFIGS = {name: config for name, (config, _) in SHAPES.items()} | {"gpt2": GPT2_SMALL}


def theirs_of(config: GPT2Config) -> GPT2LMHeadModel:
    """transformers' GPT-2 with random weights, biases and norms included."""
    settings = {k: v for k, v in config.to_hf(start_id=0).items() if k not in ("architectures", "model_type")}
    model = GPT2LMHeadModel(HFConfig(**settings, attn_implementation="eager")).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.normal_(1.0 if "ln_" in name and name.endswith("weight") else 0.0, 0.1)
            elif config.d_model < 100:
                p.mul_(8)
    return model


@pytest.mark.parametrize("name", CONFIGS)
def test_equals_transformers(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    theirs = theirs_of(config)
    theirs.save_pretrained(tmp_path)
    assert read_config(tmp_path) == config
    net = load_network(tmp_path, config)
    model = LanguageModel(name, net, byte_tokenizer(config.d_vocab))
    run = model.run("A text of 20 bytes!" if config.n_ctx > 20 else "short")
    with torch.no_grad():
        out = theirs(torch.tensor([run.tokens]), output_hidden_states=True, output_attentions=True)

    # relative to the tensor's own size: random weights of some shapes make logits in the tens
    def close(ours: np.ndarray, other: torch.Tensor) -> float:
        return float(np.abs(ours - other.numpy()).max() / max(1.0, float(other.abs().max())))

    assert np.abs(run["logits"] - out.logits[0].numpy()).max() <= 1e-3
    assert close(run["logits"], out.logits[0]) <= 1e-5
    for n in range(config.n_layer):
        assert close(run[f"blocks.{n}.resid_pre"], out.hidden_states[n][0]) <= 1e-5
        assert close(run[f"blocks.{n}.attn.pattern"], out.attentions[n][0]) <= 1e-5
    assert close(run["ln_final.out"], out.hidden_states[-1][0]) <= 1e-5
    assert close(run["probs"], out.logits[0].softmax(-1)) <= 1e-5
    assert close(run["log_probs"], out.logits[0].log_softmax(-1)) <= 1e-5
    scored_on = torch.tensor([*run.tokens[1:], run.target])
    costs = torch.nn.functional.cross_entropy(out.logits[0], scored_on, reduction="none")
    assert close(run["loss_per_token"], costs) <= 1e-5
    assert float(run["loss"]) == pytest.approx(float(costs[-1]), rel=1e-5, abs=1e-6)
    over_all = model.run(run.text, target="sequence")
    assert float(over_all["loss"]) == pytest.approx(float(costs[:-1].mean()), rel=1e-5, abs=1e-6)


def test_the_loss_over_the_sequence_equals_transformers() -> None:
    model = random_model("wide")
    run = model.run("Once upon a time", target="sequence")
    ids = torch.tensor([run.tokens])
    with torch.no_grad():
        assert float(run["loss"]) == pytest.approx(float(twin(model.net)(ids, labels=ids).loss), rel=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_transformers_reads_what_is_saved(name: str, tmp_path: Path) -> None:
    config, scale = SHAPES[name]
    net = random_network(config, scale)
    save_network(tmp_path, net, start_id=0)
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    ids = torch.randint(0, config.d_vocab, (1, 12))
    with torch.no_grad():
        assert torch.allclose(net(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4)


def test_the_toy_as_a_directory(tmp_path: Path) -> None:
    from model.loading import load

    save_toy(tmp_path)
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    run = load(tmp_path).run("the cat sat", bos=False)
    assert run.tokens == toy().run("the cat sat", bos=False).tokens
    with torch.no_grad():
        assert np.allclose(run["logits"], theirs(torch.tensor([run.tokens])).logits[0].numpy(), atol=1e-5)
