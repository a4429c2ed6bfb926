"""Runs: targets, texts, faults, capture in several threads, and what memory they say they take."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from model.errors import TargetError, TextError
from model.loading import load
from model.ops.values import Prompt
from tests.model.models import error_of, random_model

EMBEDDED = load("embedded")


def test_the_default_target_is_the_models_own_guess() -> None:
    run = EMBEDDED.run("Once upon a time, there was a")
    assert run.target_is_own
    assert run.target == int(run["logits"][-1].argmax()) == run.top(1)[0][0]
    assert float(run["loss"]) == pytest.approx(-np.log(run.top(1)[0][1]), rel=1e-5)


def test_a_target_is_one_token_with_its_space() -> None:
    run = EMBEDDED.run("John gave a drink to", target=" Mary")
    assert not run.target_is_own
    assert EMBEDDED.tokenizer.text(run.target) == " Mary"
    assert float(run["loss"]) == pytest.approx(-np.log(float(run["probs"][-1, run.target])), rel=1e-5)
    assert EMBEDDED.run("a", target=f"id:{run.target}").target == run.target


def test_a_target_of_several_tokens_is_refused_with_its_pieces() -> None:
    error = error_of(TargetError, EMBEDDED.run, "a", " Mary John")
    assert error.tokens == (" Mary", " John")
    assert "2 tokens" in error.message and "␣Mary" in error.hint


def test_a_target_id_beyond_the_vocabulary_is_refused() -> None:
    with pytest.raises(TargetError, match="no token 99999999"):
        EMBEDDED.run("a", target="id:99999999")


def test_target_names_read_back() -> None:
    for token in range(0, EMBEDDED.tokenizer.n_vocab, 7):
        assert EMBEDDED.target_id(EMBEDDED.target_name(token)) == token


def test_the_sequence_loss_is_the_mean_over_the_texts_own_tokens() -> None:
    run = EMBEDDED.run("The cat sat on the mat.", target="sequence")
    log_p = torch.log_softmax(torch.tensor(run["logits"]).double(), -1)
    each = [-float(log_p[t, run.tokens[t + 1]]) for t in range(run.n_pos - 1)]
    # −log p read from a float32 p: near p = 1 the loss keeps only p's own precision
    assert np.allclose(run["loss_per_token"][:-1], each, rtol=1e-5, atol=5e-6)
    assert float(run["loss"]) == pytest.approx(np.mean(each), rel=1e-5)
    with pytest.raises(TargetError, match="two tokens"):
        EMBEDDED.run("", target="sequence")


def test_the_start_token_can_be_left_out() -> None:
    with_start, without = EMBEDDED.run("Hello you"), EMBEDDED.run("Hello you", bos=False)
    assert with_start.tokens == (EMBEDDED.tokenizer.start_id, *without.tokens)


def test_texts_that_cannot_run() -> None:
    n = EMBEDDED.config.n_ctx
    with pytest.raises(TextError, match="nothing to run"):
        EMBEDDED.run("", bos=False)
    assert EMBEDDED.run("").n_pos == 1
    with pytest.raises(TextError, match=rf"{n + 1:,} tokens long; this model reads at most {n:,}"):
        EMBEDDED.run(" the" * n)
    assert EMBEDDED.run(" the" * (n - 1)).n_pos == n
    with pytest.raises(TextError, match="characters long"):
        EMBEDDED.run("a" * 10_000_000)


@pytest.mark.parametrize("text", ["   ", "🙂", "\x00\x07", "中文", "<|endoftext|>", "\n\n\n", "a\ud83d"])
def test_any_unicode_runs(text: str) -> None:
    run = EMBEDDED.run(text)
    assert np.isfinite(run["logits"]).all()
    assert run["probs"].sum(-1) == pytest.approx(np.ones(run.n_pos), rel=1e-5)


def test_derived_sites_equal_their_definitions() -> None:
    run = random_model("wide").run("some words")
    q, k = (torch.tensor(run[f"blocks.1.attn.{x}"]) for x in "qk")
    assert np.allclose(run["blocks.1.attn.qk"], torch.einsum("qhc,khc->hqk", q, k), rtol=1e-4, atol=1e-4)
    assert np.allclose(run["blocks.1.attn.exp"].max(-1), 1)
    assert np.allclose(
        run["blocks.1.attn.result"].sum(1) + run["blocks.1.attn.b_O"], run["blocks.1.attn_out"], atol=1e-4
    )
    assert np.allclose(run["log_probs"], np.log(run["probs"].astype(np.float64) + 1e-300), atol=1e-3)
    masked = np.triu(np.ones((run.n_pos, run.n_pos), bool), 1)
    assert np.isneginf(run["blocks.1.attn.scores"][:, masked]).all()
    assert (run["blocks.1.attn.pattern"][:, masked] == 0).all()


def test_a_slice_has_the_sliced_axes() -> None:
    run = random_model("wide").run("some words")
    whole = run["blocks.1.attn.q"]
    assert np.array_equal(run["blocks.1.attn.q[2,:,3]"], whole[2, :, 3])
    assert np.array_equal(run["blocks.1.attn.q[1:3,0,:]"], whole[1:3, 0])
    run["logits"][:] = 0
    assert run["logits"].any(), "what a reader does to an array must not reach the run"


def test_a_probability_too_small_for_float32_reads_its_logarithm() -> None:
    model = random_model("small")
    run = model.run("abc")
    logits = run.tensor("logits")
    logits[-1] = 0.0
    logits[-1, 5] = 200.0
    model_run = type(run)(model, Prompt("abc", run.tokens, target=7), {"logits": logits})
    e = model_run.explain(f"loss_per_token[{run.n_pos - 1}]")
    assert e.value == pytest.approx(200.0)
    assert e.terms[0].factors[0].address == f"log_probs[{run.n_pos - 1},7]"
    assert "too small for float32" in e.notes[0]
    assert not e.fault


def test_a_fault_is_shown_with_the_first_site_that_had_it() -> None:
    from model.runtime.language_model import LanguageModel
    from tests.model.models import SHAPES, byte_tokenizer, random_network

    config, scale = SHAPES["small"]
    net = random_network(config, scale)
    net.blocks[1].mlp.b_in.data[3] = float("nan")
    run = LanguageModel("nan", net, byte_tokenizer(config.d_vocab)).run("abc")
    assert run.first_fault() == "blocks.1.mlp.pre"
    e = run.explain("logits[0,0]")
    assert e.fault and np.isnan(e.value)
    assert "blocks.1.mlp.pre" in " ".join(e.notes)
    assert random_model("small").run("abc").first_fault() is None


def test_threads_do_not_mix_their_captures() -> None:
    texts = [f"text number {n}" for n in range(10)]
    alone = [float(EMBEDDED.run(text)["loss"]) for text in texts]
    with ThreadPoolExecutor(5) as pool:
        together = [float(run["loss"]) for run in pool.map(EMBEDDED.run, texts)]
    assert together == pytest.approx(alone, rel=1e-5)


def test_memory_counts_what_is_held() -> None:
    run = random_model("wide").run("some words")
    before = run.nbytes
    run.tensor("blocks.0.attn.result")
    assert run.nbytes - before == 4 * np.prod(run.shape("blocks.0.attn.result"))
    run.tensor("W_E")
    assert run.nbytes - before == 4 * np.prod(run.shape("blocks.0.attn.result"))


def test_a_text_may_name_its_tokens() -> None:
    mary = EMBEDDED.tokenizer.encode(" Mary")
    assert EMBEDDED.run(f"ids:{mary[0]}").tokens == EMBEDDED.run(" Mary").tokens
    assert EMBEDDED.spelled(mary) == " Mary"
    by_letters = [EMBEDDED.tokenizer.encode(c)[0] for c in "Mary"]
    spelled = EMBEDDED.spelled(by_letters)
    assert spelled == "ids:" + ",".join(map(str, by_letters))
    assert list(EMBEDDED.run(spelled, bos=False).tokens) == by_letters
    assert "no token 9999999" in error_of(TextError, EMBEDDED.run, "ids:9999999").message
    assert EMBEDDED.run("ids: 5 apples").n_pos > 2, "only a whole list of ids is one"
