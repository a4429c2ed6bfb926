"""The why panel: one number, why it is what it is, and what it leads to.

`why_view(run, state)` gathers what `templates/why/_why.html` draws; arithmetic stays in `model`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from markupsafe import Markup

from app.panels import steps
from app.panels.why import names as why_names
from app.panels.why import steps as why_steps
from app.panels.why.links import Links
from app.panels.why.navigation import tabs, title, trail
from app.panels.why.number import Place, in_its_run, number_view
from app.panels.why.panel import WhyView, hidden
from app.panels.why.site import site_view
from app.panels.why.terms import PAGE
from app.request.paths import EXPLORE, share_url
from app.request.state import State
from model.address.parser import Address, Calc, parse

if TYPE_CHECKING:
    from model import Run
    from model.arch.base import Node


def why_view(run: Run, state: State, *, limit: int = PAGE) -> WhyView:
    """The panel for `state.at`: a number (with `limit` terms listed), a whole site or part of one, or a `calc(…)`.

    Raises AddressError where the address does not parse or does not exist in this run.
    """
    shown = _view(run, state, limit)
    can_share = shown.value and not (state.is_framed or state.is_packed)
    share = share_url(state.url(EXPLORE)) if can_share else ""
    return replace(shown, action=state.action, framed=state.is_framed, share=share)


def _view(run: Run, state: State, limit: int) -> WhyView:
    parsed, links = parse(state.at), Links(state)
    if isinstance(parsed, Calc):
        if steps.must_wait(run, state.at):
            return _waiting(run, state, links, None, None)
        return number_view(Place(run, links), run, state, None, None, parsed, limit)
    address = run.check(parsed)
    node = run.model.graph[address.site]
    if steps.must_wait(run, state.at):
        return _waiting(run, state, links, node, address)
    if address.is_single:
        return number_view(in_its_run(run, state, node, address), run, state, node, address, None, limit)
    return site_view(run, state, links, node, address)


def _waiting(run: Run, state: State, links: Links, node: Node | None, address: Address | None) -> WhyView:
    """Steps of a large model that are not taken yet: nothing is computed, the page says what it would cost."""
    return WhyView(
        title=title(node, address) if node and address else "An expression",
        address=state.at,
        whereabouts=why_names.whereabouts(run, address) if address else (),
        sentence=Markup("These steps are not taken yet."),
        trail=trail(run, state),
        tabs=tabs(run, state, node, address) if address and address.is_single else (),
        formula=Markup(""),
        hidden=hidden(links),
        waiting=why_steps.waiting(run, state, address),
    )
