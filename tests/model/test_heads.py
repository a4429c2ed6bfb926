"""Head scores on patterns small enough to work out by hand, and ablation on networks built for the purpose."""

import math
from dataclasses import dataclass

import pytest
import torch

from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.errors import TextError
from model.study.heads import (
    HeadScores,
    _scores_on_givings,
    ablate_heads,
    attention_patterns,
    duplicate_score,
    givings,
    induction_score,
    kinds_of,
    logits_without,
    measure_heads,
    previous_score,
    repeated_tokens,
    start_score,
    strongest,
)


def pattern(*rows: list[float]) -> torch.Tensor:
    """One head's pattern, rows padded with the masked future's zeros."""
    return torch.tensor([[row + [0.0] * (len(rows) - len(row)) for row in rows]])


FOUR = pattern([1.0], [0.5, 0.5], [0.2, 0.7, 0.1], [0.4, 0.2, 0.3, 0.1])


def test_previous_token_score_is_the_mean_below_the_diagonal_from_position_2_on() -> None:
    assert previous_score(FOUR).tolist() == pytest.approx([(0.7 + 0.3) / 2])


def test_start_score_is_the_mean_of_column_0_from_position_2_on() -> None:
    assert start_score(FOUR).tolist() == pytest.approx([(0.2 + 0.4) / 2])


def test_duplicate_score_counts_every_earlier_copy_and_only_queries_that_have_one() -> None:
    # 7 at positions 0, 2 and 3: position 2 has one earlier copy (0.2), position 3 has two (0.4 + 0.3)
    assert duplicate_score(FOUR, [7, 8, 7, 7]).tolist() == pytest.approx([(0.2 + 0.7) / 2])


def test_induction_score_counts_the_token_after_an_earlier_copy() -> None:
    # position 2 repeats position 0, whose next is 1 (0.7); position 3 repeats 1, whose next is 2 (0.3)
    assert induction_score(FOUR, [7, 8, 7, 8]).tolist() == pytest.approx([(0.7 + 0.3) / 2])


def test_induction_leaves_out_a_query_that_would_point_at_itself() -> None:
    # position 3 repeats 2, whose next is 3 itself; of position 2 there is no earlier copy
    assert induction_score(FOUR, [7, 8, 9, 9]).tolist() == [0.0]


def test_no_repeated_token_gives_zero() -> None:
    assert duplicate_score(FOUR, [1, 2, 3, 4]).tolist() == [0.0]


@dataclass
class Words:
    """A tokenizer of whole words, each new word the next id; `closed` refuses everything."""

    start_id: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        if self.closed:
            raise TextError("not in this vocabulary")
        return [self.ids.setdefault(word, len(self.ids) + 1) for word in text.replace(",", " ,").split()]


@dataclass
class Model:
    net: GPT2
    tokenizer: Words

    @property
    def config(self) -> GPT2Config:
        return self.net.config


def random_model(n_ctx: int = 64, closed: bool = False) -> Model:
    net = GPT2(GPT2Config(n_layer=2, n_head=2, d_model=8, d_mlp=16, d_vocab=120, n_ctx=n_ctx))
    net.init_weights(torch.Generator().manual_seed(0))
    return Model(net, Words(closed=closed))


def test_giving_texts_know_where_the_names_stand() -> None:
    words = Words()
    cases = givings(words)
    names = {i: w for w, i in words.ids.items()}
    for case in cases:
        read = [names.get(i, "⟨start⟩") for i in case.ids]
        receiver, giver = read[case.receiver_at], read[case.giver_at]
        assert read.count(giver) == 2 and read.count(receiver) == 1
        assert names[case.receiver] == receiver
        assert read[-1] == "to"
    # neither the order of the names nor the giver's place tells who receives
    assert sum(c.receiver_at < c.giver_at for c in cases) * 2 == len(cases)


def test_repeated_tokens_fit_the_context_and_repeat() -> None:
    row = repeated_tokens(GPT2Config(1, 1, 4, 4, 50, 20), start_id=3, seed=1)
    assert len(row) == 19 and row[0] == 3
    assert row[1:10] == row[10:] and len(set(row)) == 10


def test_an_untrained_model_shows_no_roles() -> None:
    scores = measure_heads(random_model())
    assert [(s.block, s.head) for s in scores] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(kinds_of(s, 0.5) == [] for s in scores)


def test_a_head_built_to_look_one_back_scores_as_previous_token() -> None:
    model = random_model()
    with torch.no_grad():  # keys and queries read the position alone, which is written as an angle
        net, angle = model.net, torch.arange(64) * 2 * math.pi / 64
        net.W_E.zero_()
        net.W_pos.zero_()
        net.W_pos[:, 0], net.W_pos[:, 1] = angle.cos(), angle.sin()
        net.W_pos[:, 2], net.W_pos[:, 3] = -angle.cos(), -angle.sin()  # so that every row has mean 0 and one length
        attn = net.blocks[0].attn
        attn.W_QKV.zero_()
        turn = 2 * math.pi / 64  # the query turns its own angle back by one position
        q = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        attn.W_QKV[:2, :2] = 100 * q
        attn.W_QKV[:2, 8:10] = 100 * torch.eye(2)
    scores = measure_heads(model)
    assert scores[0].previous == pytest.approx(1.0, abs=0.01)
    assert kinds_of(scores[0])[0] == "previous"
    assert strongest(scores, "previous") == [scores[0]]


def test_a_closed_vocabulary_or_a_short_context_gives_none_instead_of_a_score() -> None:
    for scores in measure_heads(random_model(closed=True)):
        assert scores.previous is scores.start is scores.receiver is scores.second_name is None
        assert scores.induction is not None
    for scores in measure_heads(random_model(n_ctx=4)):
        assert scores.receiver is scores.induction is None
        assert scores.previous is not None
    assert ablate_heads(random_model(closed=True), [(0, 0)]) == []
    assert strongest(measure_heads(random_model(closed=True)), "receiver") == []


def test_a_head_that_looks_at_one_place_is_no_receiver_head() -> None:
    """Attention put by hand: from the last position all of it to position 2, where the first name stands."""
    model = random_model()
    n = len(givings(model.tokenizer)[0].ids)
    one_place = torch.zeros(n, n)
    one_place[:, 2] = 1

    def patterns(_net: GPT2, tokens: torch.Tensor) -> torch.Tensor:
        return one_place.expand(2, len(tokens), 2, n, n)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model.study.heads.attention_patterns", patterns)
        found = _scores_on_givings(model)
    assert found is not None
    assert found[:, 0, 0].tolist() == [0.0, 0.0, 1.0, 0.0]


def test_patterns_are_softmax_rows_and_leave_no_hook_behind() -> None:
    model = random_model()
    patterns = attention_patterns(model.net, torch.tensor([[0, 5, 6, 7], [0, 9, 8, 7]]))
    assert patterns.shape == (2, 2, 2, 4, 4)
    assert torch.allclose(patterns.sum(-1), torch.ones(2, 2, 2, 4))
    assert not any(module._forward_hooks for module in model.net.modules())


def test_ablation_takes_out_what_a_head_says_about_one_text() -> None:
    model = random_model()
    with torch.no_grad():
        model.net.blocks[0].attn.W_O.mul_(50)
    tokens = torch.tensor([[0, 5, 6, 7], [0, 9, 8, 7]])
    before = model.net(tokens)
    changed = logits_without(model.net, tokens, 0, 1)
    assert not torch.allclose(changed, before, atol=1e-4)
    # in a batch of one text the mean is that text's own z: nothing changes
    assert torch.allclose(logits_without(model.net, tokens[:1], 0, 1), before[:1], atol=1e-5)
    # a head whose output is not read can be taken out without loss
    with torch.no_grad():
        model.net.blocks[0].attn.W_O[4:] = 0
    assert torch.equal(logits_without(model.net, tokens, 0, 1), model.net(tokens))


def test_ablations_compare_with_the_same_whole_network() -> None:
    found = ablate_heads(random_model(), [(0, 0), (1, 1)])
    assert [(a.block, a.head) for a in found] == [(0, 0), (1, 1)]
    assert found[0].with_head == found[1].with_head
    assert 0 < found[0].with_head < 1


def test_kinds_are_named_largest_first() -> None:
    scores = HeadScores(
        0,
        0,
        previous=0.45,
        start=0.5,
        duplicate=0.1,
        induction=None,
        receiver=0.2,
        giver=0.0,
        first_name=0.0,
        second_name=0.0,
    )
    assert kinds_of(scores) == ["start", "previous"]
