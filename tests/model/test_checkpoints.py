"""Checkpoint files that do not fit are refused by the name of what is wrong."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.errors import CheckpointError, UnknownModel
from model.loading import load
from model.toy import save_toy
from model.weights.checkpoints import load_network, read_checkpoint, read_config, save_network
from tests.model.models import SHAPES, error_of, random_network

CONFIG = SHAPES["small"][0]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    save_network(tmp_path, random_network(CONFIG), start_id=0)
    return tmp_path


def edit(checkpoint: Path, **changes: torch.Tensor | None) -> None:
    """Replace (or with None drop) tensors; `__` in a name stands for a dot."""
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    for name, tensor in changes.items():
        name = name.replace("__", ".")
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    save_file(tensors, path)


def fault(checkpoint: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_network(checkpoint, read_config(checkpoint))
    return caught.value.message


def test_a_missing_tensor_is_named(checkpoint: Path) -> None:
    edit(checkpoint, transformer__h__1__attn__c_proj__bias=None)
    assert "missing tensor 'h.1.attn.c_proj.bias'" in fault(checkpoint)


def test_an_extra_tensor_is_named(checkpoint: Path) -> None:
    edit(checkpoint, transformer__h__2__ln_1__bias=torch.zeros(16))
    assert "extra tensor 'transformer.h.2.ln_1.bias'" in fault(checkpoint)


def test_a_misshapen_tensor_is_named(checkpoint: Path) -> None:
    edit(checkpoint, transformer__h__0__mlp__c_fc__weight=torch.zeros(64, 16))
    message = fault(checkpoint)
    assert "h.0.mlp.c_fc.weight" in message
    assert "[64, 16]" in message and "[16, 64]" in message


def test_an_untied_head_is_refused(checkpoint: Path) -> None:
    edit(checkpoint, lm_head__weight=torch.zeros(300, 16))
    assert "lm_head.weight" in fault(checkpoint)


def test_published_files_carry_masks_and_a_tied_head_and_no_prefix(checkpoint: Path) -> None:
    expected = load_network(checkpoint, CONFIG).state_dict()
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(checkpoint / "model.safetensors").items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 32, 32)
    tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, checkpoint / "model.safetensors")
    loaded = load_network(checkpoint, CONFIG).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())


def test_a_broken_file_is_named(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").write_bytes(b"\x80\x02}q\x00.")  # what a pickle looks like
    assert "not a readable safetensors file" in fault(checkpoint)
    (checkpoint / "model.safetensors").unlink()
    assert "model.safetensors is missing" in fault(checkpoint)


def test_pickles_are_not_read(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / "pytorch_model.bin")
    assert "Only safetensors" in error_of(CheckpointError, load_network, checkpoint, CONFIG).hint


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"n_layer": None}, "n_layer"),
        ({"n_head": 3}, "3 heads"),
        ({"n_layer": 0}, "n_layer"),
        ({"activation_function": "silu"}, "silu"),
        ({"model_type": "llama"}, "llama"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
    ],
)
def test_a_config_that_means_another_network_is_refused(change: dict[str, object], names: str, tmp_path: Path) -> None:
    config = {k: v for k, v in (CONFIG.to_hf(0) | change).items() if v is not None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert names in error_of(CheckpointError, read_config, tmp_path).message


def test_a_vocabulary_larger_than_the_config_is_refused(tmp_path: Path) -> None:
    save_toy(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))
    assert "8 tokens" in error_of(CheckpointError, read_checkpoint, tmp_path).message


def test_half_precision_is_loaded_as_float32(tmp_path: Path) -> None:
    net = random_network(CONFIG)
    save_network(tmp_path, net, 0, torch.float16)
    loaded = load_network(tmp_path, CONFIG)
    assert loaded.W_E.dtype == torch.float32
    assert torch.equal(loaded.W_E, net.W_E.half().float())


def test_an_unknown_model_is_named() -> None:
    error = error_of(UnknownModel, load, "gpt-9")
    assert "gpt-9" in error.message and "embedded" in error.hint
