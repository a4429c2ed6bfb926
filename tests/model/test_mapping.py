"""Weights mapped from the file: no second copy in memory, and never written to."""

from __future__ import annotations

import hashlib
import shutil
import struct
from pathlib import Path

import pytest
import torch

from model.runtime.language_model import LanguageModel
from model.weights.checkpoints import WEIGHTS, load_network, save_network
from tests.model.models import SHAPES, byte_tokenizer, random_network

CONFIG = SHAPES["small"][0]
MAPS = Path("/proc/self/maps")

needs_maps = pytest.mark.skipif(not MAPS.exists(), reason="this system has no /proc/self/maps")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    save_network(tmp_path / "x", random_network(CONFIG), start_id=0)
    return tmp_path / "x"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def mapped(path: Path) -> list[range]:
    """Where the process has the file in its memory."""
    lines = [line.split() for line in MAPS.read_text().splitlines() if line.endswith(str(path.resolve()))]
    return [range(*(int(end, 16) for end in line[0].split("-"))) for line in lines]


def shift(path: Path, by: int) -> None:
    """Lengthen the header by so many spaces: what follows then lies at another place of the file."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    path.write_bytes(struct.pack("<Q", length + by) + raw[8 : 8 + length] + b" " * by + raw[8 + length :])


@needs_maps
@pytest.mark.parametrize("odd", [0, 3])
def test_float32_parameters_are_the_files_own_pages(checkpoint: Path, odd: int) -> None:
    shift(checkpoint / WEIGHTS, odd)  # the published GPT-2 has its numbers at odd places
    net = load_network(checkpoint, CONFIG, lambda share: None)
    places = mapped(checkpoint / WEIGHTS)
    for name, p in net.named_parameters():
        assert any(p.data_ptr() in place for place in places), name
        assert p.data_ptr() % 4 == odd % 4


def test_numbers_at_odd_places_are_the_same_numbers(checkpoint: Path) -> None:
    text, tokenizer = "some text of bytes", byte_tokenizer(CONFIG.d_vocab)
    even = LanguageModel("x", load_network(checkpoint, CONFIG), tokenizer).run(text)
    shutil.copytree(checkpoint, checkpoint.with_name("odd"))
    shift(checkpoint.with_name("odd") / WEIGHTS, 3)
    odd = LanguageModel("x", load_network(checkpoint.with_name("odd"), CONFIG), tokenizer).run(text)
    for site in ("logits", "blocks.1.attn.pattern", "blocks.1.mlp.post"):
        torch.testing.assert_close(odd.tensor(site), even.tensor(site), rtol=1e-6, atol=1e-6)
    for site in ("blocks.0.mlp.pre", "blocks.1.attn.q", "embed"):
        torch.testing.assert_close(odd.gradient(site), even.gradient(site), rtol=1e-5, atol=1e-7)
    assert odd.explain("logits[3,7]").total == pytest.approx(float(odd.tensor("logits")[3, 7]), rel=1e-5)
    slope = "blocks.0.mlp.W_in[3,5].grad"
    assert odd.explain(slope).total == pytest.approx(even.explain(slope).total, rel=1e-4)


@needs_maps
def test_half_precision_is_a_copy(tmp_path: Path) -> None:
    save_network(tmp_path, random_network(CONFIG), 0, torch.float16)
    net = load_network(tmp_path, CONFIG)
    places = mapped(tmp_path / WEIGHTS)
    assert not any(p.data_ptr() in place for p in net.parameters() for place in places)


def test_learning_writes_neither_the_file_nor_the_mapped_weights(checkpoint: Path) -> None:
    before = digest(checkpoint / WEIGHTS)
    net = load_network(checkpoint, CONFIG)
    start = {name: p.clone() for name, p in net.named_parameters()}
    model = LanguageModel("x", net, byte_tokenizer(CONFIG.d_vocab))
    run = model.run("some text", changes=["blocks.0.mlp.W_in[0,0]=3"])
    assert float(run.tensor("loss")) > 0
    model.run("some text").learning.take(3)
    assert all(torch.equal(p, start[name]) for name, p in net.named_parameters())
    assert digest(checkpoint / WEIGHTS) == before


def test_whoever_writes_a_weight_writes_no_file(checkpoint: Path) -> None:
    before = digest(checkpoint / WEIGHTS)
    net = load_network(checkpoint, CONFIG)
    with torch.no_grad():
        net.W_E.fill_(7.0)
    assert digest(checkpoint / WEIGHTS) == before
    assert not bool((load_network(checkpoint, CONFIG).W_E == 7.0).all())


def test_a_checkpoint_saved_anew_or_removed_leaves_the_loaded_one_as_it_was(checkpoint: Path) -> None:
    net = load_network(checkpoint, CONFIG)  # nothing of it is read yet
    save_network(checkpoint, random_network(CONFIG, seed=1), start_id=0)
    expected = random_network(CONFIG).state_dict()
    assert all(torch.equal(p, expected[name]) for name, p in net.named_parameters())
    again = load_network(checkpoint, CONFIG)
    shutil.rmtree(checkpoint)
    assert torch.equal(again.W_E, random_network(CONFIG, seed=1).W_E)


def test_whoever_waits_hears_how_far_it_is(checkpoint: Path) -> None:
    heard: list[float] = []
    net = load_network(checkpoint, CONFIG, heard.append)
    assert heard == sorted(heard) and heard[-1] == 1.0 and len(heard) == len(list(net.parameters()))
