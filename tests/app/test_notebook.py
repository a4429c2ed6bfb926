"""Notebooks: valid, and run cell by cell they arrive at the number, from its terms and from scratch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from transformers import GPT2LMHeadModel

from app.features.export.notebook import notebook, plain
from app.features.export.plain_gpt2 import PlainRun
from model import Run, load
from model.address.parser import Address, parse
from model.ops.update import Rate
from model.toy import save_toy
from tests.app.conftest import save_checkpoint

TEXT = "When Mary and John went"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Networks as small as these are done before threads have met."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    save_toy(root / "toy")
    return {"small": save_checkpoint(root / "small"), "toy": root / "toy"}


@cache
def loaded(directory: Path) -> Run:
    """Of the toy a short text, so that the run has a target that the model does not expect."""
    text = "the cat sat on" if directory.name == "toy" else TEXT
    return load(directory).run(text, target=" mat" if directory.name == "toy" else "id:17")


def cells(run: Run, at: str) -> list[str]:
    body = json.loads(notebook(run, at))
    return ["".join(cell["source"]) for cell in body["cells"] if cell["cell_type"] == "code"]


def made(run: Run, at: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """The number that a notebook arrives at: from its terms, and from scratch. Its last cell needs no run here."""
    monkeypatch.setenv("CHECKPOINT", str(directory))
    names: dict[str, Any] = {}
    for source in cells(run, at)[:-1]:
        exec(source, names)
    return names["total"], names["from_scratch"]


def size_of(run: Run, at: str) -> float:
    """How large numbers of this kind are, which is what float32's rounding goes by."""
    parsed = parse(at)
    if not isinstance(parsed, Address):
        return max(abs(float(run.values(at))), 1.0)
    values = run.values(Address(parsed.site, (), parsed.quantity))
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


def check(run: Run, at: str, directory: Path, monkeypatch: pytest.MonkeyPatch, within: float = 1e-5) -> None:
    e = run.explain(at, limit=0)
    total, from_scratch = made(run, at, directory, monkeypatch)
    assert total == e.value or abs(total - e.value) <= e.allowed, at
    assert from_scratch == e.value or abs(from_scratch - e.value) <= within * size_of(run, at) + 1e-9, at


@pytest.mark.parametrize("name", ["small", "toy"])
def test_every_site_and_slope(name: str, directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    run = loaded(directories[name])
    for node in run.model.graph:
        if node.block not in (None, 0):
            continue
        last = {"pos": run.n_pos - 1, "query": run.n_pos - 1, "key": 1, "n_ctx": 1}
        sizes = zip(node.axes, run.shape(node.name), strict=True)
        place = tuple(min(last.get(axis, 2), size - 1) for axis, size in sizes)
        check(run, str(Address(node.name, place)), directories[name], monkeypatch)
        if node.name != "tokens":
            slope = str(Address(node.name, place, "grad"))
            check(run, slope, directories[name], monkeypatch, 1e-4 if node.short != "b_K" else 1)


@pytest.mark.parametrize(
    "at",
    [
        "calc(logits[3,17]-logits[3,5])", "calc(exp(loss)/2)", "calc(max(logits[3,:]))", "calc(mean(probs[3,0:9]))",
        "calc(dot(ln_final.out[3,:],W_E[17,:]))", "calc(partial(logits[3,17],0:9))", "calc(sqrt(blocks.0.ln1.var[2]))",
        "calc(-W_E[5,1]*positive(blocks.0.mlp.pre[2,3])+acos(0.5))", "blocks.0.attn.scores[0,1,3]",
    ],
)  # fmt: skip
def test_expressions_and_masks(at: str, directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    check(loaded(directories["small"]), at, directories["small"], monkeypatch)


@pytest.mark.parametrize(
    "at",
    [
        "calc(1/0)", "calc(-1/0)", "calc(0/0)", "calc(1/0-1/0)", "calc(log(0))", "calc(sqrt(-1))", "calc(exp(1000))",
        "calc(1e300*1e300*0)", "calc(logits[3,17]/0)", "calc(1/(loss-loss))", "calc(positive(0/0))", "calc(acos(0/0))",
        "calc(max(logits[3,:]/0))", "calc(2/(1/0))",
    ],
)  # fmt: skip
def test_infinite_and_undefined_numbers(at: str, directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    run = loaded(directories["small"])
    total, from_scratch = made(run, at, directories["small"], monkeypatch)
    value = float(run.values(at))
    np.testing.assert_equal([total, from_scratch], [value, value])


STEPS = [
    ("sgd", "blocks.0.attn.W_Q[0,5,3].step"), ("sgd", "W_E[17,3].step(3)"), ("sgd", "loss.step(2)"),
    ("sgd", "blocks.1.mlp.pre[2,3].grad(1)"), ("sgd", "blocks.0.mlp.W_in[5,7].grad(2)"),
    ("adamw", "blocks.0.attn.W_O[1,3,5].step(2)"), ("adamw", "W_E[17,3].m(2)"), ("adamw", "W_E[17,3].v(2)"),
    ("adamw", "logits[3,17].step(1)"),
]  # fmt: skip


@pytest.mark.parametrize(("optimizer", "at"), STEPS)
def test_learning_steps(optimizer: Any, at: str, directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    rate = Rate(1e-3, optimizer)
    check(loaded(directories["small"]).at_rate(rate), at, directories["small"], monkeypatch, 1e-3)


def test_other_losses_and_changes(directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    model = load(directories["small"])
    whole = model.run(TEXT, target="sequence", bos=False)
    for at in ("loss", "loss_per_token[1].grad", "logits[1,5].grad", "W_pos[2,3].grad"):
        check(whole, at, directories["small"], monkeypatch, 1e-4)
    changes = ["blocks.0.attn.z[:,1,:]=0", "blocks.0.mlp.W_in[5,7]+=2", "embed[2,3]=1.5"]
    changed = model.run(TEXT, target="id:17", changes=changes)
    assert abs(float(changed["loss"]) - float(loaded(directories["small"])["loss"])) > 1e-4
    for at in ("loss", "logits[3,17]", "blocks.0.mlp.W_in[5,7]", "blocks.0.attn.z[2,1,3]", "embed[2,3]"):
        check(changed, at, directories["small"], monkeypatch)
    bare = model.run(TEXT, target="id:17", changes=["additions=off"])
    for at in ("loss", "blocks.1.resid_post[2,3]", "blocks.0.mlp.W_in[5,7].grad"):
        check(bare, at, directories["small"], monkeypatch, 1e-4)


def test_too_many_terms_are_asked_of_the_project(monkeypatch: pytest.MonkeyPatch):
    """A softmax over a vocabulary of GPT-2's size is not written down."""
    monkeypatch.setattr("app.features.export.notebook_terms.MOST_WRITTEN", 1_000)
    run = load("embedded").run("Hi", target="id:17")
    names: dict[str, Any] = {}
    first, terms, *_ = cells(run, "probs[1,17]")
    exec(first, names)
    exec(terms, names)
    assert "load(CHECKPOINT or MODEL)" in terms and len(terms) < 2_000
    assert names["total"] == pytest.approx(float(run["probs[1,17]"]), rel=1e-5)


def test_it_needs_nothing_of_this_project(directories: dict[str, Path], tmp_path: Path):
    """Run where the project cannot be imported: PyTorch, NumPy and safetensors do."""
    run = loaded(directories["small"])
    at = "blocks.0.attn.k[2,1,3].grad"
    barred = "import sys; sys.modules['model'] = sys.modules['app'] = None\n"
    script = barred + "\n".join(cells(run, at))
    (tmp_path / "cells.py").write_text(script, "utf-8")
    done = subprocess.run(
        [sys.executable, "cells.py"], cwd=tmp_path, env={"CHECKPOINT": str(directories["small"])},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.findall(r"from (?:its terms|scratch) ([-\d.e]+), captured", done.stdout)
    assert len(found) == 2 and "not installed here" in done.stdout
    assert [float(x) for x in found] == pytest.approx([float(run[at])] * 2, rel=1e-3)


def test_the_plain_network_is_gpt2(directories: dict[str, Path]):
    """Against transformers, in float64: the oracle that knows nothing of either."""
    tokens = [0, 5, 17, 300]
    oracle = GPT2LMHeadModel.from_pretrained(directories["small"], attn_implementation="eager").double().eval()
    logits = oracle(torch.tensor([tokens])).logits[0]
    mine = PlainRun(directories["small"], tokens, 17)
    assert np.allclose(mine.value("logits"), logits.detach().numpy(), rtol=1e-12, atol=1e-12)
    torch.nn.functional.cross_entropy(logits[-1:], torch.tensor([17])).backward()
    theirs = oracle.transformer.h[1].attn.c_attn.weight.grad
    heads = theirs[:, :24].unflatten(1, (2, -1)).transpose(0, 1)
    assert np.allclose(mine.slope("blocks.1.attn.W_Q"), heads.numpy(), rtol=1e-9, atol=1e-14)


# -- the format


def test_the_format_is_nbformat_4_5(directories: dict[str, Path]):
    body = json.loads(notebook(loaded(directories["small"]), "loss", url="https://numbers.example/explore?at=loss"))
    assert (body["nbformat"], body["nbformat_minor"]) == (4, 5)
    assert body["metadata"]["kernelspec"].keys() >= {"name", "display_name"}
    assert "https://numbers.example/explore?at=loss" in "".join(body["cells"][0]["source"])
    ids = [cell["id"] for cell in body["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in ids)
    for cell in body["cells"]:
        wanted = {"id", "cell_type", "metadata", "source"}
        wanted |= {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == wanted and isinstance(cell["source"], list)
        assert all(line.endswith("\n") for line in cell["source"][:-1])


@pytest.mark.parametrize("text", ['"""\\', "a'b\"c{x}\n# none", "<img src=x onerror=1> **b** $x$ `c`", "\u2028é🙂"])
def test_any_text_can_be_in_it(text: str, directories: dict[str, Path]):
    run = load(directories["small"]).run(text, target="id:5")
    body = json.loads(notebook(run, "embed[1,2]"))
    names: dict[str, Any] = {}
    exec("".join(body["cells"][1]["source"]), names)
    assert names["TEXT"] == text and names["TOKENS"] == list(run.tokens)
    assert "<img" not in "".join(body["cells"][0]["source"]) and "<" not in plain(text)


def test_the_page_offers_it(client: TestClient):
    answer = client.get("/export/notebook.ipynb", params={"text": "Hi", "at": "loss.step(2)"})
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ipynb+json"
    assert answer.headers["content-disposition"] == 'attachment; filename="why_loss.step(2).ipynb"'
    assert answer.json()["nbformat"] == 4
    assert client.get("/export/notebook.ipynb", params={"at": "logits"}).status_code == 400
