"""How the serving process uses the machine: PyTorch's threads, and memory given back when it is free."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

import torch

LARGE = 20_000_000  # weights; learning steps wait for the reader's word above this, and more threads pay

# Of glibc's mallopt. Freed blocks below 32 MB would stay on a heap, where long-lived ones pin them, and each of many
# threads would have a heap of its own.
M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 2**20
M_ARENA_MAX, ARENAS = -8, 2


def tune(n_parameters: int, threads: int = 0) -> None:
    """Set PyTorch's threads for the default network, and let freed large blocks go at once."""
    use_threads(n_parameters, threads)
    with contextlib.suppress(OSError, AttributeError):  # another C library has nothing to set
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        libc.mallopt(M_ARENA_MAX, ARENAS)


def is_large(n_parameters: int) -> bool:
    """Whether a model of so many weights is slow enough that a page says what work costs before it does it."""
    return n_parameters > LARGE


def use_threads(n_parameters: int, threads: int = 0) -> None:
    """Set how many of PyTorch's threads work for the calling one; 0: one for a small network, else one a core.

    A small network is done before its threads have met: on a busy machine they mostly wait for each other.
    """
    wanted = threads or ((os.cpu_count() or 1) if is_large(n_parameters) else 1)
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's where that has a limit."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max": none
            return min(whole, int(Path(limit).read_text()))
    return whole
