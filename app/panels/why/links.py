"""Links of the why panel: each follows a number and so joins the trail."""

from __future__ import annotations

from html import escape

from markupsafe import Markup

from app.render import links
from app.request.state import State
from model.explain.explainable import after_steps

FORM = "follow"
LONG_FRONT = 240


class Links(links.Links):
    """Links onward from `state.at`.

    In a panel of the run after `step` learning steps, addresses are that run's own; the links add which run it is.
    """

    def __init__(self, state: State, step: int = 0) -> None:
        super().__init__(state, form=FORM, onward=tuple(state.follow("").view_query), longest=LONG_FRONT)
        self.step = step

    def to(self, at: str, shown: str | Markup, *, css: str = "num", title: str = "", current: bool = False) -> Markup:
        """A link to one address; what it shows is plain text or Markup."""
        inside = shown if isinstance(shown, Markup) else Markup(escape(shown))
        if self.step:
            if "partial(" in at:  # only of the run as it is do the first terms have an address
                return inside
            title, at = (after_steps(title, self.step) if title == at else title), after_steps(at, self.step)
        back = self.state.follow(at).url() if at in self.state.trail else ""
        if self.as_buttons and title == at and not back:
            title = ""  # the address stands there once already
        hint = f' title="{escape(title, quote=True)}"' if title else ""
        here = ' aria-current="true"' if current else ""
        return self.link(at, inside, css=css, attributes=hint + here, href=back)

    def code(self, at: str, *, title: str = "") -> Markup:
        """A link to an address that shows it."""
        return self.to(at, Markup("<code>{}</code>").format(at), css="", title=title)
