"""How the serving process uses the machine: PyTorch's threads, and memory given back when it is free."""

from __future__ import annotations

import contextlib
import ctypes
import os

import torch

# A network smaller than this is done before its threads have met: on a busy machine they mostly wait for each other.
SMALL = 20_000_000

# Of glibc's mallopt. Freed blocks below 32 MB would stay on a heap, where long-lived ones pin them, and each of many
# threads would have a heap of its own.
M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 2**20
M_ARENA_MAX, ARENAS = -8, 2


def tune(n_parameters: int, threads: int = 0) -> None:
    """Set PyTorch's threads (0: one for a small network, else one a core) and let freed large blocks go at once."""
    torch.set_num_threads(threads or (1 if n_parameters < SMALL else os.cpu_count() or 1))
    with contextlib.suppress(OSError, AttributeError):  # another C library has nothing to set
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        libc.mallopt(M_ARENA_MAX, ARENAS)
