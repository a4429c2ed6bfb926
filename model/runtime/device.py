"""Where a network runs: the processor, or a GPU if PyTorch has one.

Only passes through the network run there, forward, back and learning steps. What they give comes to the processor's
memory at once, as float32, and so do explanations, which are computed in float64.
"""

from __future__ import annotations

from typing import Literal

import torch

from model.errors import ReaderError

Device = Literal["auto", "cpu", "cuda"]


class DeviceError(ReaderError):
    """A GPU is asked for where there is none."""

    code, part = "no_gpu", "device"


def chosen(device: Device = "auto") -> torch.device:
    """The device of that name; "auto" is a GPU where PyTorch has one. Raises DeviceError.

    On a GPU float32 stays float32: multiplied as TF32, with 10 bits, no number would stand up to being explained.
    """
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise DeviceError("The device is cuda, but PyTorch sees no GPU here.", "Use auto or cpu.")
    if device == "cpu" or not has_gpu:
        return torch.device("cpu")
    torch.set_float32_matmul_precision("highest")
    return torch.device("cuda")
