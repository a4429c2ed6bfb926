"""Learning steps that an address names: how many, in words, and whether a page may take them on the spot."""

from __future__ import annotations

from dataclasses import replace

from app.server.process import is_large
from model import Run
from model.address.parser import Address, parse
from model.address.trees import addresses


def in_words(k: int) -> str:
    """1 step, 3 steps."""
    return f"{k} step{'s' * (k != 1)}"


def named(at: str) -> int:
    """The most learning steps that an address, or any address in a `calc(…)`, asks for. Raises AddressError."""
    return max((address.step or 0 for address in addresses(parse(at))), default=0)


def must_wait(run: Run, at: str) -> bool:
    """Whether an address asks for steps that are not taken yet, of a model too large to take them on the spot."""
    return is_large(run.model.n_parameters) and named(at) > run.steps_taken


def stepped(address: Address, k: int) -> Address:
    """The same place after k steps."""
    return replace(address, quantity="step" if k == 1 else f"step({k})")


def before(address: Address) -> Address:
    """The same place as the run had it."""
    return replace(address, quantity="")
