"""What each op says in a sentence: its tokens, positions, entries and counts are those of the number asked about.

The sentences stand here a second time. `{t3}` is the token at position 3, `{v17}` entry 17 of the vocabulary.
"""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import ReaderError
from tests.model.op_oracle import TINY, Case, address_of, case_of
from tests.model.test_op_terms import places_of

CASES = [("toy", None), ("toy", "sequence"), ("embedded", None), ("small", "sequence"), ("relu", None), (TINY, None)]

A_WEIGHT = "A learned weight: set by training, the same in every run."
WEIGHTS = {
    "W_E": "A row of numbers for each token of the vocabulary.",
    "W_pos": "A row of numbers for each position.",
    "w": "How much each entry is stretched.",
    "b": "How much each entry is shifted.",
    "W_Q": "Makes queries.",
    "b_Q": "Added to every query.",
    "W_K": "Makes keys.",
    "b_K": "Added to every key.",
    "W_V": "Makes values.",
    "b_V": "Added to every value.",
    "W_O": "Join the heads and write into the stream.",
    "b_O": "Added to attention's output.",
    "W_in": "A column is what a neuron looks for.",
    "b_in": "How eager each neuron is.",
    "W_out": "A row is what a neuron adds.",
    "b_out": "Added to every update.",
}


def sentence(case: Case, node: Any, at: tuple[int, ...]) -> str:
    """What must be said of node[at]."""
    c, short = case.run.model.config, node.short
    d, last = c.d_model, case.n - 1
    if short in WEIGHTS:
        return WEIGHTS[short]
    if short == "loss":
        if case.is_sequence:
            return "The average over all positions that have a next token in the text."
        return f"The loss at the last position, {{t{last}}}, for the target {{v{case.goals[-1]}}}."
    if short == "W_U":
        return f"GPT-2 reads words out with the table it reads them in with: this is row {{v{at[1]}}} of W_E."
    if len(at) == 3 and node.axes[0] == "head":
        return pair_sentence(case, short, at)
    t, token, entry = at[0], f"{{t{at[0]}}}", at[-1]
    if short == "tokens":
        if t == 0:
            return "{t0} marks the start of a text; it is put in front of every sentence unless switched off."
        return f"The tokenizer cut the text into pieces from a fixed list; {token} is number {case.tokens[t]}."
    if short == "resid_pre" and node.block:
        return f"The same number that block {node.block - 1} handed on for {token}."
    if short == "loss_per_token":
        goes_on = f"After {token} the text goes on with" if t < last else f"After {token} the target is"
        what = f"{goes_on} {{v{case.goals[t]}}}"
        return f"{what}; the loss is minus the logarithm of the probability it was given."
    row = f"its row of {d} numbers times one column of weights, plus a bias."
    head = at[1] if len(at) == 3 else None
    fires = "a match passes unchanged, anything below zero becomes 0."
    presses = "a clear match passes almost whole, a mismatch is pressed towards zero."
    return {
        "embed": f"{token} has id {case.tokens[t]}, so this is entry {entry} of row {case.tokens[t]} "
        "of the learned table.",
        "pos_embed": f"{token} stands at position {t}, so this is entry {entry} of row {t} of the position table.",
        "resid_pre": f"What {token} is, plus where it stands.",
        "resid_mid": f"Attention's update is added to what {token} carried into the block.",
        "resid_post": f"The feed-forward network's update is added to what {token} carried.",
        "mean": f"The average of the {d} numbers that stand for {token} here.",
        "var": f"How far the {d} numbers of {token} lie from their mean: the average square.",
        "scale": "The typical distance from the mean: "
        "the square root of the variance, with a tiny ε so it is never zero.",
        "normalized": f"Take the mean of {token}'s numbers away, divide by their scale: "
        "what is left has mean 0 and spread 1.",
        "out": f"Entry {entry} gets its own learned stretch and shift, the same for every token.",
        "q": f"Entry {entry} of what {token} looks for in head {head}: {row}",
        "k": f"Entry {entry} of what {token} can be matched on in head {head}: {row}",
        "v": f"Entry {entry} of what {token} hands over in head {head}: {row}",
        "z": f"Head {head}'s mix for {token}: entry {entry} of every token's value, each counted by its weight.",
        "result": f"What head {head} alone writes into entry {entry} of {token}'s row.",
        "attn_out": f"All heads' mixes for {token}, each number times its output weight, plus a bias.",
        "pre": f"How well {token}'s row matches what neuron {entry} looks for: "
        f"{d} numbers times a column of weights, plus a bias.",
        "post": f"Neuron {entry} at {token}: {fires if c.act == 'relu' else presses}",
        "mlp_out": f"Every neuron adds its own row, as strongly as it fired at {token}: "
        f"this is entry {entry} of the sum of {c.d_mlp} rows, plus a bias.",
        "logits": f"How well {token}'s final row of {d} numbers matches the row of {{v{entry}}}: "
        "multiply pair by pair, then add.",
        "probs": f"The probability that {{v{entry}}} comes after {token}: "
        f"its exponential's share of all {c.d_vocab:,}.",
        "log_probs": f"The logarithm of the probability of {{v{entry}}} after {token}, without going through a tiny p.",
    }[short]


def pair_sentence(case: Case, short: str, at: tuple[int, ...]) -> str:
    """Of a number for a query and a key."""
    h, q, k = at
    c = case.run.model.config
    d = c.d_model // c.n_head
    asks, answers = f"{{t{q}}}", f"{{t{k}}}"
    if short == "qk":
        return (
            f"{asks} asks with a query of {d} numbers; {answers} answers with a key of {d}. "
            "Multiply them pair by pair, then add."
        )
    if short == "scores":
        if k > q:
            return (
                f"{answers} comes after {asks}: "
                "the mask sets the score to −∞, so that no position sees what it must guess."
            )
        return f"Dot products of {d} numbers grow like √{d}; dividing keeps scores in a range softmax can work with."
    if short == "exp":
        largest = int(case.run[f"blocks.0.attn.scores[{h},{q},:]"].argmax())
        return (
            "e to the power of the score, "
            f"after the row's largest score (for {{t{largest}}}) is taken away, so the largest becomes 1."
        )
    if k > q:
        return f"{answers} comes after {asks}, so it gets no weight."
    return f"How much of {asks}'s attention goes to {answers}: its exponential's share of the whole row."


@pytest.mark.parametrize(("name", "target"), CASES)
def test_sentences_name_the_right_tokens_and_numbers(name: str, target: str | None) -> None:
    case = case_of(name, target)
    for node in case.run.model.graph:
        if node.block not in (None, 0) and not (node.block == 1 and node.short == "resid_pre"):
            continue
        for at in places_of(case, node.name):
            assert case.run.explain(address_of(node.name, at), limit=1).plain == sentence(case, node, at)


def notes_of(case: Case, address: str) -> tuple[str, ...]:
    return tuple(case.run.explain(address, limit=1).notes)


def test_notes_on_where_numbers_come_from() -> None:
    case = case_of("toy")
    shown = ["<|endoftext|>", "the", " cat", " sat", " on", " the", " mat", " dog"]
    for row, text in enumerate(["⟨start⟩", *(text.replace(" ", "␣") for text in shown[1:])]):
        assert notes_of(case, f"W_E[{row},0]") == (A_WEIGHT, f"Row {row} belongs to the token “{text}”.")
    for row in range(8):
        unused = (f"Row {row} is not used in this run: the text ends at position {case.n - 1}.",)
        assert notes_of(case, f"W_pos[{row},0]") == ((A_WEIGHT, *unused) if row >= case.n else (A_WEIGHT,))
    assert notes_of(case, "blocks.0.mlp.b_in[0]") == (A_WEIGHT,)
    for t, token in enumerate(case.tokens):
        written = f"Bytes: {shown[token].encode().hex(' ')}"
        assert notes_of(case, f"tokens[{t}]") == ("An id is an address in the vocabulary, not a quantity.", written)
    assert notes_of(case, "blocks.0.attn.scores[0,1,2]") == ("Masked.",)
    assert notes_of(case, "blocks.0.attn.scores[0,2,1]") == ()


def test_a_row_beyond_the_tokenizers_own_names_no_token() -> None:
    """A table may have more rows than there are tokens."""
    case = case_of("small")
    n_vocab = case.run.model.tokenizer.n_vocab
    for row in range(case.run.model.config.d_vocab):
        assert len(notes_of(case, f"W_E[{row},0]")) == (2 if row < n_vocab else 1)


def test_without_a_start_token_the_first_is_one_like_any() -> None:
    run = case_of("toy").run.model.run("the cat", bos=False)
    says = run.explain("tokens[0]").plain
    assert says == "The tokenizer cut the text into pieces from a fixed list; {t0} is number 1."


def test_notes_on_probabilities_too_small() -> None:
    case = case_of(TINY)
    note = "The probability is too small for float32, so this reads its logarithm from log_probs."
    for t in range(case.n):
        assert notes_of(case, f"loss_per_token[{t}]") == ((note,) if case.reads_log_p[t] else ())


MASKED = "The mask sets this score to −∞ whatever the dot product is, so the loss does not depend on it."


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("blocks.0.attn.qk[1,1,3]", MASKED),
        ("blocks.0.attn.scores[1,1,3]", MASKED),
        ("log_probs[6,3]", "The loss reads probs; log_probs is a view beside it, so its slope is 0."),
        ("W_pos[7,1]", "The text ends at position 6: the loss does not depend on this row."),
        ("probs[2,1]", "The loss does not read this number, so its slope is 0."),
        ("loss", "The loss moves one for one with itself: every slope is counted from here."),
        ("blocks.0.attn.qk[1,3,1]", None),
    ],
)  # fmt: skip
def test_notes_on_slopes_of_nothing(at: str, says: str | None) -> None:
    assert notes_of(case_of("toy"), f"{at}.grad") == ((says,) if says else ())


def test_a_token_has_no_slope_and_its_row_has() -> None:
    run = case_of("toy").run
    with pytest.raises(ReaderError, match="an address in the vocabulary") as caught:
        run.explain("tokens[3].grad")
    assert caught.value.hint == "The row it picks has one: embed[3,0].grad."
