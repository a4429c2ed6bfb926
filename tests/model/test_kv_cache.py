"""The KV cache against the network's own forward: rows, logits, counts."""

import numpy as np
import pytest
import torch
from torch import Tensor

from model.runtime.kv_cache import KVCache, Rows, logits_without_cache
from tests.model.models import SHAPES, random_model


def tokens_of(name: str, n: int) -> list[int]:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, SHAPES[name][0].d_vocab, (n,), generator=generator).tolist()


def close(ours: Tensor, other: Tensor) -> bool:
    """Within 1e-4 of the numbers' own size."""
    return float((ours - other).abs().max()) <= 1e-4 * float(other.abs().max())


@pytest.mark.parametrize("name", SHAPES)
def test_every_step_equals_the_whole_forward(name: str) -> None:
    model, n = random_model(name), SHAPES[name][0].n_ctx
    tokens = tokens_of(name, n)
    cache = KVCache(model.net)
    with torch.no_grad():
        whole = model.net(torch.tensor([tokens]))[0]  # causal: row t is what a text of t + 1 tokens gives
    assert close(cache.append(tokens[:5]), whole[4])
    for t in range(5, n):
        assert close(cache.append(tokens[t : t + 1]), whole[t])
        if t % 7 == 0:
            assert close(logits_without_cache(model.net, tokens[: t + 1]), whole[t])
    assert cache.length == n


@pytest.mark.parametrize("name", SHAPES)
def test_the_rows_kept_are_the_run_s_keys_and_values(name: str) -> None:
    model = random_model(name)
    run = model.run("The rows stay.", bos=True)
    cache = KVCache(model.net)
    for part in (run.tokens[:4], run.tokens[4:9], run.tokens[9:10], run.tokens[10:]):  # several rows after others, too
        logits = cache.append(part)
    assert close(logits, run.tensor("logits")[-1])
    for layer in range(model.config.n_layer):
        for kept, site in ((cache.keys, "k"), (cache.values, "v")):
            rows = kept[layer, :, : cache.length].transpose(0, 1)  # the site's axes: pos, head, d_head
            assert close(rows, run.tensor(f"blocks.{layer}.attn.{site}"))


def test_reading_on_leaves_the_rows_alone() -> None:
    cache = KVCache(random_model("wide").net)
    cache.append([1, 2, 3, 4])
    before = cache.keys[:, :, :4].clone(), cache.values[:, :, :4].clone()
    cache.append([5])
    cache.append([6, 7])
    assert torch.equal(before[0], cache.keys[:, :, :4])
    assert torch.equal(before[1], cache.values[:, :, :4])


def test_a_cache_can_be_cut_back_to_read_something_else() -> None:
    net = random_model("wide").net
    cache = KVCache(net)
    cache.append([1, 2, 3, 4, 5])
    cache.length = 3
    assert close(cache.append([9]), logits_without_cache(net, [1, 2, 3, 9]))


def test_it_holds_no_more_than_the_context() -> None:
    cache = KVCache(random_model("one head").net)
    cache.append([1] * 24)
    with pytest.raises(ValueError, match="25 tokens do not fit a context of 24"):
        cache.append([1])
    assert cache.length == 24


def test_nothing_of_the_network_is_copied_or_changed() -> None:
    net = random_model("small").net
    before = {name: (p.data_ptr(), p.clone()) for name, p in net.named_parameters()}
    KVCache(net).append([1, 2, 3])
    for name, p in net.named_parameters():
        assert p.data_ptr() == before[name][0]
        assert torch.equal(p, before[name][1])


@pytest.mark.parametrize("t", [1, 2, 3, 10, 1024])
def test_pairs(t: int) -> None:
    seen = np.tril(np.ones((t, t), dtype=int))  # query row, key column
    assert Rows(0, t).pairs == Rows(0, t).pairs_without == seen.sum() == t * (t + 1) // 2
    assert Rows(t - 1, 1).pairs == seen[-1].sum() == t
    assert Rows(t - 1, 1).pairs_without == seen.sum()
    assert Rows(t // 2, t - t // 2).pairs == seen[t // 2 :].sum()
