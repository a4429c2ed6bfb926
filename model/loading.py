"""Checkpoints by name: the two that ship with the project, the published GPT-2s, or a directory."""

from __future__ import annotations

import os
from pathlib import Path

from model.errors import UnknownModel
from model.runtime.device import Device, chosen
from model.runtime.language_model import LanguageModel
from model.toy import toy
from model.weights import hub
from model.weights.checkpoints import Advance, read_checkpoint

EMBEDDED = Path(__file__).parent / "embedded" / "weights"
BUILT_IN = ("embedded", "toy")


def load(
    name: str | Path = "embedded", *, called: str = "", advance: Advance | None = None, device: Device = "auto"
) -> LanguageModel:
    """Load `embedded`, `toy`, a published checkpoint, or the Hugging Face GPT-2 checkpoint in a directory.

    `gpt2`, `distilgpt2`, `gpt2-medium`, `gpt2-large` and `gpt2-xl` are looked for in the directories that
    EVERYNUMBER_MODELS names, then in the hub's cache, and else downloaded.

    `called` is the model's name where it is not to be the directory's. `advance` hears how far reading is, and has
    all of the file read now. `device` is where the network runs ("auto": a GPU where PyTorch has one); `toy` always
    runs on the processor. Raises UnknownModel for a name that is none of these, DownloadError, DeviceError, and
    CheckpointError where the files do not fit.
    """
    place = chosen(device)
    if name == "toy":
        return toy()
    directory = directory_of(name)
    net, tokenizer = read_checkpoint(directory, advance)
    return LanguageModel(called or Path(name).name, net, tokenizer, directory, place)


def directory_of(name: str | Path) -> Path:
    """Where a checkpoint lies; a published one that is nowhere here is downloaded first."""
    if name == "embedded":
        return EMBEDDED
    if isinstance(name, str) and (one := hub.published(name)):
        return in_directories(name, os.environ.get("EVERYNUMBER_MODELS", "")) or hub.fetch(one)
    directory = Path(name)
    if not directory.is_dir():
        names = [*BUILT_IN, *(one.name for one in hub.PUBLISHED)]
        raise UnknownModel(f"There is no model “{name}”.", f"Choose one of {', '.join(names)}, or a directory.")
    return directory


def in_directories(name: str, directories: str) -> Path | None:
    """The checkpoint of that name among directories that are one or hold some, joined by `:`."""
    for directory in map(Path, filter(None, directories.split(os.pathsep))):
        for found in (directory, directory / name):
            if found.name == name and (found / "config.json").exists():
                return found
    return None
