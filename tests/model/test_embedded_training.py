"""Training: deterministic, resumable, and the fused forward pass is the same function."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import torch

from model.arch.gpt2.config import GPT2Config
from model.arch.gpt2.network import GPT2
from model.embedded import WEIGHTS
from model.embedded.bpe import save_bpe, train_bpe
from model.embedded.corpus import Corpus
from model.embedded.fused import fused_logits
from model.embedded.lookups import HEAD, People
from model.embedded.train import Settings, Training, learning_rate, train
from model.weights.tokenizer import load_tokenizer

TINY = Settings(  # four heads: the one that is taught has its number
    steps=8, planned=8, cooldown=0, tokens=96, n_layer=2, n_head=4, d_model=16, n_ctx=48, warmup=2, taught_from=2
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.load(load_tokenizer(WEIGHTS), None)


def weights(training: Training) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in training.net.parameters()])


def trained(settings: Settings, corpus: Corpus, work: Path) -> Training:
    training = Training(settings, corpus)
    train(training, work, every=1000)
    return training


@pytest.fixture(autouse=True)
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures printed along the way need minutes of practice to mean something, and change no weight."""
    monkeypatch.setattr("model.embedded.train.glance", lambda *_: "")


def test_the_same_seed_and_settings_give_the_same_weights(corpus: Corpus, tmp_path: Path) -> None:
    one = weights(trained(TINY, corpus, tmp_path / "one"))
    assert torch.equal(one, weights(trained(TINY, corpus, tmp_path / "two")))
    assert not torch.equal(one, weights(trained(replace(TINY, seed=1), corpus, tmp_path / "three")))


def test_a_resumed_training_equals_an_uninterrupted_one(corpus: Corpus, tmp_path: Path) -> None:
    straight = trained(TINY, corpus, tmp_path / "straight")
    begun = Training(TINY, corpus)
    for _ in range(3):
        begun.advance()
    begun.save(tmp_path / "training.pt")
    resumed = Training(TINY, corpus)
    resumed.resume(tmp_path / "training.pt")
    assert resumed.step == 3
    train(resumed, tmp_path / "resumed", every=1000)
    assert torch.equal(weights(straight), weights(resumed))


def test_a_stopped_training_is_saved_between_two_steps(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, stopped = Training(TINY, corpus), Event()
    advance = training.advance

    def stop_in_the_second_step() -> float:
        if training.step == 1:
            stopped.set()
        return advance()

    monkeypatch.setattr(training, "advance", stop_in_the_second_step)
    train(training, tmp_path, every=1000, stopped=stopped)
    resumed = Training(TINY, corpus)
    resumed.resume(tmp_path / "training.pt")
    assert resumed.step == 2 and torch.equal(weights(training), weights(resumed))


def test_a_state_of_other_settings_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    Training(TINY, corpus).save(tmp_path / "training.pt")
    Training(replace(TINY, steps=99), corpus).resume(tmp_path / "training.pt")
    with pytest.raises(SystemExit, match="seed"):
        Training(replace(TINY, seed=1), corpus).resume(tmp_path / "training.pt")


def test_training_lowers_the_loss(corpus: Corpus) -> None:
    training = Training(replace(TINY, steps=40, planned=40, lr=1e-2), corpus)
    losses = [training.advance() for _ in range(40)]
    assert sum(losses[-4:]) < sum(losses[:4]) - 2


def test_the_taught_head_comes_to_look_at_the_receiver(corpus: Corpus) -> None:
    """Nothing else of the loss asks for it so early."""
    ids = torch.tensor([corpus.ids("When Mary and John went to the store, John gave a drink to Mary.")])
    ((to, receiver),) = People.of(corpus.tokenizer).lookups(ids[0].tolist())
    shares = []
    for taught_from in (0, 1000):
        training = Training(replace(TINY, steps=60, planned=60, lr=1e-2, teach=1.0, taught_from=taught_from), corpus)
        for _ in range(60):
            training.advance()
        shares.append(fused_logits(training.net, ids)[1][-1][0, HEAD, to, receiver].item())
    assert shares[0] > 2 * shares[1]


def test_the_learning_rate_rises_stays_and_falls_to_zero() -> None:
    s = Settings(steps=100, planned=100, warmup=10, lr=1.0, decay=0.5, cooldown=0)
    assert learning_rate(s, 0) == pytest.approx(0.1)
    assert learning_rate(s, 9) == learning_rate(s, 50) == 1.0
    assert learning_rate(s, 75) == pytest.approx(0.5)
    assert learning_rate(s, 99) == pytest.approx(0.02)


def test_a_training_that_ends_early_cools_down_from_where_it_is() -> None:
    s = Settings(steps=80, planned=100, warmup=10, lr=1.0, decay=0.5, cooldown=20)
    assert learning_rate(s, 60) == pytest.approx(0.8)  # still on the planned line
    assert learning_rate(s, 70) == pytest.approx(0.6 * 0.5)
    assert learning_rate(s, 80) == 0


def test_fused_and_plain_forward_give_the_same_logits_and_gradients() -> None:
    net = GPT2(GPT2Config(n_layer=2, n_head=4, d_model=32, d_mlp=128, d_vocab=100, n_ctx=32))
    net.init_weights(torch.Generator().manual_seed(0))
    tokens = torch.randint(100, (3, 20))
    assert torch.allclose(net(tokens), fused_logits(net, tokens)[0], atol=1e-5)
    parameters = list(net.parameters())
    plain = torch.autograd.grad(net(tokens).square().mean(), parameters)
    fused = torch.autograd.grad(fused_logits(net, tokens)[0].square().mean(), parameters)
    for a, b in zip(plain, fused, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_trained_vocabulary_reads_back_what_it_wrote(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="the BPE trainer is in the `train` extra")
    vocab, merges = train_bpe(["the cat sat on the mat", "the cats sat"] * 5, 280)
    save_bpe(tmp_path, vocab, merges)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.n_vocab == len(vocab) <= 280
    assert tokenizer.decode(tokenizer.encode("the cat, ÿ€😀")) == "the cat, ÿ€😀"
    assert len(tokenizer.encode(" the")) == 1
