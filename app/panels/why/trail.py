"""The trail of the why panel: the numbers followed to get where the reader is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.panels import steps
from app.panels.why import names as why_names
from app.render.numbers import short
from app.request.state import State
from app.server.prefix import Url
from model.address.parser import Address, parse
from model.errors import ReaderError

if TYPE_CHECKING:
    from model import Run

LONG_TRAIL, FEW_STEPS = 5_000, 5  # bytes of all the trail's links; how many steps are shown past that


@dataclass(frozen=True)
class Crumb:
    """One step of the trail; the last one, where the reader is, has no URL."""

    name: str
    value: str
    address: str
    url: str = ""


def trail(run: Run, state: State) -> tuple[Crumb, ...]:
    """The addresses followed, with their values; one that means nothing in this run is left out.

    Each step's link repeats the text: of a long text, only the last few steps are shown.
    """
    steps = [(at, state.back(n).url()) for n, at in enumerate(state.trail)]
    if sum(len(url) for _, url in steps) > LONG_TRAIL:
        steps = steps[-FEW_STEPS:]
    steps.append((state.at, Url("")))
    found = []
    for at, url in steps:
        try:
            found.append(Crumb(why_names.word(run, at), value_of(run, at), at, url))
        except ReaderError:
            continue
    return tuple(found)


def value_of(run: Run, at: str) -> str:
    """The value of one number in few figures, nothing for more than one, or where it would take steps first."""
    parsed = parse(at)
    if steps.must_wait(run, at):
        return ""
    if isinstance(parsed, Address) and not run.check(parsed).is_single:
        return ""
    x = run.values(parsed) if isinstance(parsed, Address) else run.values(at)
    return short(float(x)) if np.ndim(x) == 0 else ""
