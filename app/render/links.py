"""Links to numbers: many on one page, which share everything but the address.

What they share is quoted and escaped once. Where it is long (a long text), a number becomes a button of a form of the
page, which carries the rest in hidden fields: the same URL, a fraction of the bytes.
"""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from markupsafe import Markup

from app.request.paths import SAFE, Pairs, encoded
from app.request.state import LONG_QUERY, State


class Links:
    """Links from the page of a state to other addresses, which begin a new trail; `onward` is what they carry besides.

    `form` is the id of the form whose buttons they are where a link would have more than `longest` characters in front;
    "" where no form carries the run: then they are links all the same.
    """

    def __init__(self, state: State, *, form: str = "go", onward: Pairs = (), longest: int = LONG_QUERY) -> None:
        self.state, self.form = state, form
        self.fields = [*state.page_query, *onward]
        self.as_buttons = bool(form) and len(encoded(self.fields)) > longest
        before = encoded(state.page_query)
        self._front = escape(f"{state.action}?{before}{'&' if before else ''}at=", quote=True)
        self._end = escape(f"&{encoded(onward)}", quote=True) if onward else ""

    def number(self, at: str, shown: str, *, css: str = "num", current: bool = False, label: str = "") -> Markup:
        """One clickable number. `shown` is plain text; `label` an accessible name where `shown` does not say enough."""
        name = f' aria-label="{escape(label, quote=True)}"' if label else ""
        return self.link(at, Markup(escape(shown)), css=css, current=current, attributes=name)

    def link(
        self, at: str, inner: Markup, *, css: str = "", current: bool = False, attributes: str = "", href: str = ""
    ) -> Markup:
        """Anything that selects an address when clicked: a link, or a button where links would be too long.

        `attributes` are more HTML attributes, escaped already and with a space in front. `href` leads elsewhere than
        where all links lead, not escaped.
        """
        here = ' aria-current="true"' if current else ""
        if self.as_buttons and not href:
            return Markup(
                f'<button type="submit" form="{escape(self.form)}" name="at" value="{escape(at, quote=True)}" '
                f'class="{css}"{here}{attributes}>{inner}</button>'
            )
        href = escape(href, quote=True) if href else self._front + escape(quote(at, safe=SAFE), quote=True) + self._end
        return Markup(f'<a class="{css}" href="{href}"{here}{attributes}>{inner}</a>')
