"""The address that a page is about: checked, spelled in one way, and what stands beside it."""

from __future__ import annotations

from contextlib import suppress

from app.panels import steps
from app.panels.sentence import writable
from app.render.places import chosen, default_address
from app.request.state import State
from model import Run
from model.address.parser import Calc, parse
from model.errors import AddressError
from model.explain.expression import number

ZONES = {"zones": "explore/_zones.html", "values": "values/_values.html", "why": "why/_why.html"}  # id -> its template


def untaken(run: Run, state: State) -> State:
    """What the page shows beside the why panel: the place before its steps, where it does not take them itself."""
    if not steps.must_wait(run, state.at):
        return state
    return state.replace(at=str(steps.before(chosen(run, state.at))))


def target_field(run: Run, asked: State) -> str:
    """What stands in the form's target: nothing where the model chose it."""
    if run.is_sequence or not asked.target:
        return asked.target
    return writable(run.model, run.target)


def selected(run: Run, state: State) -> State:
    """The state with its address and trail checked and spelled in one way; the default address where none is given.

    The trail only says where the reader came from: what names nothing here is left out of it.
    """
    at = checked(run, state.at) if state.at else default_address(run)
    trail = []
    for address in state.trail:
        with suppress(AddressError):
            trail.append(checked(run, address))
    return state.replace(at=at, trail=tuple(trail))


def checked(run: Run, at: str) -> str:
    """The address in its usual spelling. Raises AddressError where it names nothing in this run."""
    parsed = parse(at)
    if isinstance(parsed, Calc):
        if not steps.must_wait(run, at):
            number(run, parsed)
    else:
        run.check(parsed)
    return str(parsed)
