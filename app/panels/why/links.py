"""Links of the why panel: each follows a number and so joins the trail.

They share everything but the address, so that front is quoted and escaped once. Where it is long (a long text, a long
trail), a number becomes a button of the panel's own form, which carries the rest in hidden fields: the same URL, a
fraction of the bytes.
"""

from __future__ import annotations

from html import escape
from urllib.parse import quote, urlencode

from markupsafe import Markup

from app.request.state import SAFE, State
from model.runtime.learn import after_steps

FORM = "follow"
LONG_FRONT = 240


class Links:
    """Links onward from `state.at`.

    In a panel of the run after `step` learning steps, addresses are that run's own; the links add which run it is.
    """

    def __init__(self, state: State, step: int = 0) -> None:
        self.state, self.step = state, step
        onward = state.follow("").view_query
        self.fields = [*state.page_query, *onward]
        self.as_buttons = len(urlencode(self.fields, safe=SAFE, quote_via=quote)) > LONG_FRONT
        before, after = (urlencode(part, safe=SAFE, quote_via=quote) for part in (state.page_query, onward))
        self._front = escape(f"{state.front}?{before}{'&' if before else ''}at=", quote=True)
        self._back = escape(f"&{after}", quote=True)

    def to(self, at: str, shown: str | Markup, *, css: str = "num", title: str = "", current: bool = False) -> Markup:
        """A link to one address; what it shows is plain text or Markup."""
        if self.step:
            if "partial(" in at:  # only of the run as it is do the first terms have an address
                return shown if isinstance(shown, Markup) else Markup(escape(shown))
            title, at = (after_steps(title, self.step) if title == at else title), after_steps(at, self.step)
        here = ' aria-current="true"' if current else ""
        hint = f' title="{escape(title, quote=True)}"' if title else ""
        inside = shown if isinstance(shown, Markup) else escape(shown)
        if at in self.state.trail:
            href = escape(self.state.follow(at).url(), quote=True)
        elif self.as_buttons:
            hint = "" if title == at else hint  # the address stands there once already
            front = f'<button type="submit" form="{FORM}" name="at" value="{escape(at, quote=True)}"'
            return Markup(f'{front} class="{css}"{hint}{here}>{inside}</button>')
        else:
            href = self._front + escape(quote(at, safe=SAFE), quote=True) + self._back
        return Markup(f'<a class="{css}" href="{href}"{hint}{here}>{inside}</a>')
