"""What one head is taught: which name is asked for, and what looking at it or past it costs."""

from math import log

import pytest
import torch

from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.embedded import WEIGHTS
from model.embedded.fused import fused_logits
from model.embedded.lookups import People, teaching
from model.study.heads import attention_patterns
from model.weights.tokenizer import Tokenizer, load_tokenizer

tokenizer: Tokenizer = load_tokenizer(WEIGHTS)
people = People.of(tokenizer)


def row(*documents: str) -> list[int]:
    return [token for text in documents for token in (tokenizer.start_id, *tokenizer.encode(text))]


def looked_up(*documents: str) -> list[tuple[str, str, int]]:
    """(token at the query, token at the key, the key's position) of every lookup."""
    ids = row(*documents)
    return [(tokenizer.text(ids[q]) or "", tokenizer.text(ids[k]) or "", k) for q, k in people.lookups(ids)]


def test_the_receiver_is_looked_up_where_it_stands_first() -> None:
    sentence = "When Mary and John went to the store, John gave a drink to Mary."
    assert looked_up(sentence) == [(" to", " Mary", 2)]
    assert looked_up(sentence.replace("John gave a drink to Mary", "Mary gave a drink to John")) == [
        (" to", " John", 4)
    ]


def test_places_other_people_and_other_documents_are_no_lookups() -> None:
    assert looked_up("Mary went to the store. John went to the store.") == []
    assert looked_up("When Mary and John went to the store, John gave a drink to Tom.") == []
    assert looked_up("Then Mary sat down.", "John gave a drink to Mary.") == []
    assert looked_up("Then Mary sat down. John gave a drink to Mary.") == [(" to", " Mary", 2)]


def test_words_that_are_called_people_count_as_names() -> None:
    assert looked_up("When orange and Monday sat, Monday gave a cup to orange.") == [(" to", " orange", 2)]


def test_the_cost_by_hand() -> None:
    """Two heads of two blocks with shares 0.1 and 0.2, 0.4 and 0.5 at the lookup; head 1 of the last is taught."""
    ids = row("Then Mary sat down. John gave a drink to Mary.")
    ((query, key),) = people.lookups(ids)
    patterns = [torch.zeros(1, 2, len(ids) - 1, len(ids) - 1) for _ in range(2)]
    for pattern, shares in zip(patterns, ((0.1, 0.2), (0.4, 0.5)), strict=True):
        pattern[0, :, query, key] = torch.tensor(shares)
    cost = teaching(people, torch.tensor([ids]), patterns, head=1)
    assert cost is not None
    assert cost[0].item() == pytest.approx(-log(0.5), abs=1e-5)
    assert cost[1].item() == pytest.approx(-log(0.9) - log(0.8) - log(0.6), abs=1e-5)


def test_rows_that_ask_for_no_name_cost_nothing() -> None:
    assert teaching(people, torch.tensor([row("The cat sat on the mat.")]), [torch.zeros(1, 1, 9, 9)]) is None


def test_the_attention_that_is_taught_is_the_networks_own() -> None:
    net = GPT2(GPT2Config(n_layer=2, n_head=4, d_model=32, d_mlp=128, d_vocab=100, n_ctx=32))
    net.init_weights(torch.Generator().manual_seed(0))
    tokens = torch.randint(100, (3, 20))
    assert torch.allclose(torch.stack(fused_logits(net, tokens)[1]), attention_patterns(net, tokens), atol=1e-6)
