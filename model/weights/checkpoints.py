"""Checkpoints in Hugging Face's format: a name for every tensor, every shape checked, safetensors only."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.arch.architecture import Stored
from model.arch.base import Config
from model.arch.network import Network
from model.arch.registry import architecture_of, config_from
from model.errors import CheckpointError
from model.weights.tokenizer import Tokenizer, load_tokenizer

WEIGHTS = "model.safetensors"

LONGEST_HEADER = 25_000_000  # bytes, as the format's own reader allows

Advance = Callable[[float], None]  # called with the share that is done, from 0 to 1


def load_network(directory: Path, config: Config, advance: Advance | None = None) -> Network:
    """Map `model.safetensors` into memory, as float32. A missing, extra or misshapen tensor is an error that names it.

    Parameters that are stored as float32 are the file's own pages, read when first touched, shared with other
    processes and never written: no copy is made of them. Other types are converted. With `advance` every page is
    touched now, so that the time it takes is seen here and not in the first run.
    """
    path = directory / WEIGHTS
    if not path.exists():
        raise CheckpointError(f"{directory}: {WEIGHTS} is missing", "Only safetensors files are read.")
    with torch.device("meta"):
        net = architecture_of(config).network(config)
    shapes = {name: tuple(p.shape) for name, p in net.named_parameters()}
    net.load_state_dict(_read_tensors(path, architecture_of(config).stored(config), shapes, advance), assign=True)
    return net.eval()


def _read_tensors(
    path: Path, stored: Stored, shapes: dict[str, tuple[int, ...]], advance: Advance | None
) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    repeated: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for full in file.keys():  # noqa: SIM118  (the file is no dict and cannot be iterated)
                name = full.removeprefix(stored.prefix)
                if stored.ignored and stored.ignored.fullmatch(name):
                    continue
                if name in stored.repeated:
                    repeated[name] = file.get_tensor(full)
                    continue
                ours = stored.names.get(name)
                if ours is None:
                    raise CheckpointError(f"{path.name}: extra tensor {full!r}, which this config has no place for")
                found[ours] = _fitting(path, full, file.get_tensor(full), shapes[ours]).float()
                if advance is not None:
                    touch(found[ours])
                    advance(len(found) / len(stored.names))
    except SafetensorError as fault:
        raise CheckpointError(f"{path.name}: not a readable safetensors file ({fault})") from None
    missing = [name for name, ours in stored.names.items() if ours not in found]
    if missing:
        raise CheckpointError(f"{path.name}: missing tensor {missing[0]!r}" + _more(len(missing) - 1))
    for name, tensor in repeated.items():
        ours = stored.repeated[name]
        if not torch.equal(tensor.float(), found[ours]):
            once = next(theirs for theirs, parameter in stored.names.items() if parameter == ours)
            raise CheckpointError(f"{path.name}: {name!r} differs from {once!r}, but this architecture ties them")
    return found


def _fitting(path: Path, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(tensor.shape) != shape:
        raise CheckpointError(
            f"{path.name}: tensor {name!r} has shape {list(tensor.shape)}, but the config asks for {list(shape)}"
        )
    return tensor


def touch(tensor: Tensor) -> None:
    """Read one number of every page of memory, so that all of them are there."""
    tensor.reshape(-1)[:: 4096 // tensor.element_size()].sum()


def is_whole(path: Path) -> bool:
    """Whether a safetensors file is as long as its own header says; a cheap look that finds half files."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length <= LONGEST_HEADER else {}
            ends = [about["data_offsets"][1] for name, about in header.items() if name != "__metadata__"]
            return bool(ends) and os.fstat(file.fileno()).st_size == 8 + length + max(ends)
    except (OSError, struct.error, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False


def _more(n: int) -> str:
    return f" and {n} more" if n else ""


def read_config(directory: Path) -> Config:
    """`config.json` of a checkpoint directory."""
    path = directory / "config.json"
    if not path.exists():
        raise CheckpointError(f"{directory}: config.json is missing")
    try:
        return config_from(json.loads(path.read_text("utf-8")))
    except json.JSONDecodeError as fault:
        raise CheckpointError(f"{path}: not valid JSON ({fault})") from None


def read_checkpoint(directory: Path, advance: Advance | None = None) -> tuple[Network, Tokenizer]:
    """The network and the tokenizer of a Hugging Face directory; `advance` as in `load_network`."""
    if not directory.is_dir():
        raise CheckpointError(f"{directory} is not a directory")
    config = read_config(directory)
    tokenizer = load_tokenizer(directory)
    if tokenizer.n_vocab > config.d_vocab:
        raise CheckpointError(f"{directory}: {tokenizer.n_vocab} tokens, but the config has {config.d_vocab}")
    return load_network(directory, config, advance), tokenizer


def save_network(directory: Path, net: Network, start_id: int, dtype: torch.dtype = torch.float32) -> None:
    """Write `config.json` and `model.safetensors` so that transformers reads them unchanged."""
    directory.mkdir(parents=True, exist_ok=True)
    config = json.dumps(net.config.to_hf(start_id), indent=2) + "\n"
    (directory / "config.json").write_text(config, "utf-8")
    state, stored = net.state_dict(), architecture_of(net.config).stored(net.config)
    tensors = {f"{stored.prefix}{theirs}": state[ours].to(dtype).contiguous() for theirs, ours in stored.names.items()}
    save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
