"""Checkpoints by name: the two that ship with the project, or a directory."""

from __future__ import annotations

from pathlib import Path

from model.checkpoints import read_checkpoint
from model.errors import UnknownModel
from model.language_model import LanguageModel
from model.toy import toy

EMBEDDED = Path(__file__).parent / "embedded" / "weights"
BUILT_IN = ("embedded", "toy")


def load(name: str | Path = "embedded") -> LanguageModel:
    """Load `embedded`, `toy`, or the Hugging Face GPT-2 checkpoint in a directory.

    Raises UnknownModel for a name that is neither, CheckpointError where the files do not fit.
    """
    if name == "toy":
        return toy()
    directory = EMBEDDED if name == "embedded" else Path(name)
    if not directory.is_dir():
        raise UnknownModel(f"There is no model “{name}”.", f"Choose one of {', '.join(BUILT_IN)}, or a directory.")
    net, tokenizer = read_checkpoint(directory)
    return LanguageModel(str(name) if name == "embedded" else directory.name, net, tokenizer, directory)
