"""The explorer reads the architecture: every kind of number of a network that is no GPT-2 opens and is explained."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import AppSettings
from model.arch.graph import Graph
from model.arch.llama.config import LlamaConfig
from model.arch.llama.network import Llama
from model.arch.registry import ARCHITECTURES
from model.loading import EMBEDDED
from model.weights.checkpoints import save_network

CONFIG = LlamaConfig(n_layer=1, n_head=4, n_key_value=2, d_model=16, head_dim=4, d_mlp=24, d_vocab=2304, n_ctx=32)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setitem(ARCHITECTURES, "llama", replace(ARCHITECTURES["llama"], is_whole=True))
    net = Llama(CONFIG)
    torch.manual_seed(2)
    for p in net.parameters():
        torch.nn.init.normal_(p, 0.1, 0.3)
    save_network(tmp_path / "llama", net, 0)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(EMBEDDED / name, tmp_path / "llama" / name)
    return TestClient(create_app(AppSettings(models=str(tmp_path))))


def test_every_kind_of_number_of_a_llama_opens(client: TestClient) -> None:
    with client:
        for node in Graph(CONFIG):
            address = f"{node.name}[{','.join('1' for _ in node.axes)}]" if node.axes else node.name
            query = {"model": "llama", "text": "Hi there", "at": address}
            for zone in ("why", "zones"):
                page = client.get("/explore", params=query, headers={"HX-Request": "true", "HX-Target": zone})
                assert page.status_code == 200, (address, zone, page.text[:300])
                assert address in page.text


def test_a_norm_without_a_mean_is_named_and_drawn(client: TestClient) -> None:
    with client:
        for site in ("scale[1]", "normalized[1,2]"):
            query = {"model": "llama", "text": "Hi there", "at": f"blocks.0.ln1.{site}"}
            page = client.get("/explore", params=query, headers={"HX-Request": "true", "HX-Target": "why"}).text
            assert "RMSNorm at position 1, step by step" in page, site
            assert "LayerNorm" not in page, site
            assert "The numbers normalised: 0 (line)" in page and "most within ±" in page, site
