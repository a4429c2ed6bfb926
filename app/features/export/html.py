"""HTML that stands alone: links that a file can follow by itself, no forms, no scripts, no request.

`stand_alone` copies what a page shows sign by sign and changes only what needs a server. A link to a number leads to
its place in the file where there is one, else to the site where its address is known, else it is plain text that names
the number. Controls are left out; their state is said elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser

ATTRIBUTE = re.compile(r"""\s+([^\s=>/"']+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
NAMES = re.compile(r"<[A-Za-z][^\s/>]*")

LEFT_OUT = {"form", "script", "style", "select", "textarea", "iframe", "template"}  # with all that is in them
VOID = {"input", "link"}
REFERENCES = {"id", "for", "headers", "aria-labelledby", "aria-describedby", "aria-controls"}  # names of ids
NEEDS_SERVER = re.compile(r"data-|on|srcset$|src$|action$|form|name$|type$|download$|target$|rel$|autofocus$")
ONLINE = "data-online"  # on an element: it is of use on the site alone

Leads = Callable[[str, str], str]  # an href and the address of a number ("" where it is none) -> where it leads, or ""


def stand_alone(html: str, leads: Leads, prefix: str = "") -> str:
    """`html` for a file. `prefix` goes before every id, so that several pieces can stand in one file."""
    copier = _Copier(leads, prefix)
    copier.feed(html)
    copier.close()
    return "".join(copier.parts)


class _Copier(HTMLParser):
    def __init__(self, leads: Leads, prefix: str) -> None:
        super().__init__(convert_charrefs=False)
        self.leads, self.prefix = leads, prefix
        self.parts: list[str] = []
        self._ends: list[tuple[str, str]] = []  # open links and buttons: their own tag, and how they end in the file
        self._skipping: list[str] = []
        self._in_svg = 0

    # -- tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        if self._skipping:
            self._skipping += [tag] if tag == self._skipping[-1] else []
        elif tag in LEFT_OUT or any(name == ONLINE for name, _ in attrs):
            self._skipping.append(tag)
        else:
            self._in_svg += tag == "svg"
            self._open(tag, {name: value or "" for name, value in attrs})

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._skipping and tag not in VOID | LEFT_OUT:
            self.parts.append(self._kept(self.get_starttag_text() or ""))

    def handle_endtag(self, tag: str) -> None:
        if self._skipping:
            if tag == self._skipping[-1]:
                self._skipping.pop()
        elif self._ends and self._ends[-1][0] == tag:
            self.parts.append(self._ends.pop()[1])
        else:
            self._in_svg -= tag == "svg"
            self.parts.append(f"</{tag}>")

    def _open(self, tag: str, attributes: dict[str, str]) -> None:
        raw = self.get_starttag_text() or ""
        if tag not in ("a", "button"):
            self.parts.append(self._kept(raw))
            return
        href, at = attributes.get("href", ""), address_in(attributes)
        to = f"#{self.prefix}{href[1:]}" if href.startswith("#") else self.leads(href, at) if href or at else ""
        plain = "g" if self._in_svg else "span"
        name = "a" if to else plain
        own = f' href="{escape(to)}"' if to else f' title="{escape(at)}"' if at and not self._in_svg else ""
        kept = self._attributes(raw, without={"href", "value"} | ({"title"} if own.startswith(" title") else set()))
        if not to:
            kept = re.sub(r' (role|tabindex|aria-label)="[^"]*"', "", kept)
        self.parts.append(f"<{name}{own}{kept}>")
        self._ends.append((tag, f"</{name}>"))

    def _kept(self, raw: str) -> str:
        """A start tag with its ids renamed and without what needs a server.

        One of several pieces has no landmarks of its own: their names would not tell them apart.
        """
        name = NAMES.match(raw)
        assert name is not None
        attributes = self._attributes(raw, {"aria-labelledby"} if self.prefix and name[0] == "<section" else set())
        if self.prefix:
            attributes = attributes.replace(' role="region"', ' role="group"')
        return f"{name[0]}{attributes}{'/>' if raw.endswith('/>') else '>'}"

    def _attributes(self, raw: str, without: set[str] | frozenset[str] = frozenset()) -> str:
        """The attributes as they are written, so that those of SVG keep their capitals."""
        kept = []
        for match in ATTRIBUTE.finditer(raw.removesuffix(">").removesuffix("/"), NAMES.match(raw).end()):  # type: ignore[union-attr]
            name, value = match[1], match[2]
            if name.lower() in without or NEEDS_SERVER.match(name.lower()):
                continue
            if name in REFERENCES and value is not None:
                value = '"' + " ".join(f"{escape(self.prefix)}{one}" for one in value.strip("\"'").split()) + '"'
            elif name == "href" and value is not None and value.strip("\"'").startswith("#"):  # <use> in a drawing
                value = '"#' + escape(self.prefix) + value.strip("\"'")[1:] + '"'
            kept.append(f" {name}" if value is None else f" {name}={value}")
        return "".join(kept)

    # -- all else, as it is

    def handle_data(self, data: str) -> None:
        self._copy(data)

    def handle_entityref(self, name: str) -> None:
        self._copy(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._copy(f"&#{name};")

    def _copy(self, text: str) -> None:
        if not self._skipping:
            self.parts.append(text)


def address_in(attributes: dict[str, str]) -> str:
    """The number that a link or a button selects."""
    if attributes.get("name") == "at":
        return attributes.get("value", "")
    return ""


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a" and attributes.get("href"):
            self.found.append((attributes["href"], ""))
        elif tag == "button" and (at := address_in(attributes)):
            self.found.append(("", at))


def links_in(html: str) -> list[tuple[str, str]]:
    """All links and buttons in order, as `leads` gets them."""
    finder = _Finder()
    finder.feed(html)
    return finder.found
