"""A checkpoint whose tables have more rows than its vocabulary has words, as padded ones do: every page takes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

from app.main import create_app
from app.parts.table import PARTS
from app.settings import AppSettings
from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.loading import EMBEDDED
from model.weights.checkpoints import save_network

WORDS, ROWS = 2304, 2400
UNUSED = 2350


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Serves such a model, which likes the unused ids best: their logits are the largest wherever it looks."""
    directory: Path = tmp_path_factory.mktemp("padded")
    net = GPT2(GPT2Config(n_layer=1, n_head=2, d_model=16, d_mlp=32, d_vocab=ROWS, n_ctx=64))
    net.init_weights(torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.ln_final.b.fill_(1.0)
        net.W_E[WORDS:] += 1.0
    save_network(directory, net, start_id=0)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(EMBEDDED / name, directory)
    with TestClient(create_app(AppSettings(model=str(directory)))) as client:
        yield client


@pytest.mark.parametrize("text", ["The cat sat", f"ids:12,{UNUSED},30"])
@pytest.mark.parametrize("at", ["", f"logits[2,{UNUSED}]", "tokens[2]", f"W_E[{UNUSED},3]", "loss", "probs[2,5].grad"])
def test_the_explorer(client: TestClient, text: str, at: str) -> None:
    answer = client.get("/explore", params={"text": text} | ({"at": at} if at else {}))
    assert answer.status_code == 200
    assert "⟨unused" in answer.text


@pytest.mark.parametrize("name", PARTS)
def test_every_live_part(client: TestClient, name: str) -> None:
    assert client.get(f"/embed/{name}", params={"text": "The cat sat"}).status_code == 200


@pytest.mark.parametrize("path", ["/generate", "/learn", "/whatif", "/lessons/transformer?all=1", "/lessons/math?all=1",
                                  "/about/heads", "/api/v1/run", "/api/v1/generate?n=3", "/card.png"])  # fmt: skip
def test_other_pages(client: TestClient, path: str) -> None:
    assert client.get(path, params={"text": "The cat sat"} if "?" not in path else None).status_code == 200


def test_what_is_generated_shows_unused_ids(client: TestClient) -> None:
    made = client.get("/api/v1/generate", params={"text": "The cat sat", "n": 3, "temperature": 0}).json()["tokens"]
    assert all(token["id"] >= WORDS and token["text"] is None and token["bytes"] == "" for token in made)
    assert "⟨unused" in client.get("/generate", params={"text": "The cat sat", "n": 3, "temperature": 0}).text
