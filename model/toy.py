"""The `toy` checkpoint: one block, four numbers a token, every weight round enough to check by hand.

Two heads of two, eight neurons with ReLU, the words of “the cat sat on the mat”. The weights were fitted on that
sentence (and the dog's) while being held to steps of 0.1 (tables) and 0.5 (matrices); the rows of ` cat` and ` dog`
were fixed beforehand. LayerNorm's weights are 1, its biases 0.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from model.arch.gpt2.config import GPT2Config
from model.arch.registry import architecture_of
from model.runtime.language_model import LanguageModel
from model.weights.checkpoints import save_network
from model.weights.tokenizer import Tokenizer, write_tokenizer

WORDS = ("the", " cat", " sat", " on", " the", " mat", " dog")
START_ID = 0
PIECES = r" ?\p{L}+| ?[^\s\p{L}]+|\s+"
CONFIG = GPT2Config(n_layer=1, n_head=2, d_model=4, d_mlp=8, d_vocab=8, n_ctx=8, act="relu")

# The weights under the network's names. Rows of W_E are <|endoftext|> and WORDS in order; W_QKV holds queries, keys and
# values side by side, two heads each.
WEIGHTS = Path(__file__).with_name("toy.json")


def toy() -> LanguageModel:
    """The toy as a loaded model. It is made in memory; `save_toy` writes it as a checkpoint directory."""
    net = architecture_of(CONFIG).network(CONFIG)
    weights = json.loads(WEIGHTS.read_text("utf-8"))
    net.load_state_dict({name: torch.tensor(values) for name, values in weights.items()}, strict=False)
    vocab = {word.encode(): n + 1 for n, word in enumerate(WORDS)}
    return LanguageModel("toy", net.eval(), Tokenizer(vocab, START_ID, PIECES))


def save_toy(directory: Path) -> None:
    """Write the toy as a Hugging Face GPT-2 directory, whole words as its vocabulary."""
    model = toy()
    save_network(directory, model.net, START_ID)
    write_tokenizer(directory, model.tokenizer)
