"""Draws a card (`app.features.share.card`) as a PNG of 1200 × 630 pixels, or smaller in the same proportion.

The same card gives the same bytes. Letters are DejaVu Sans where this machine has it, for it knows the signs that
tokens and formulas need; else Pillow's own face, with plain signs in place of those that it lacks.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from app.features.share.card import Bar, Card, Piece
from app.panels.shared import HEIGHT, WIDTH, picture_height
from app.render.heat import STEPS, Scale
from app.request.look import LIGHT, mixed

PAPER, RAISED, INK, INK_2, INK_3 = "#fdfdfb", "#f3f3ee", "#1b1d21", "#4d5058", "#666971"
RULE, RULE_2, ACCENT, WASH = "#dedcd5", "#8d8c84", "#8c1d5c", "#f8eaf1"
POS, NEG = "#2166a8", "#b4530f"
POS_DEEPEST, NEG_DEEPEST = (0x6B, 0xA4, 0xDC), (0xEA, 0x94, 0x50)

EDGE, GAP = 64, 10
FACES = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
PLAIN = str.maketrans({
    "−": "-", "⁻": "-", "×": "x", "⟨": "<", "⟩": ">", "␣": "_", "⏎": "\\", "⇥": ">", "÷": "/", "√": "sqrt ", "—": "-",
    "–": "-", "’": "'", "‘": "'", "“": '"', "”": '"', "…": "...", "\xa0": " ", "∞": "inf", "·": ".", "∂": "d",
})  # fmt: skip


@dataclass(frozen=True)
class Face:
    """One size of the letters; `plain` says that they are Pillow's own, which know little beyond ASCII."""

    font: ImageFont.FreeTypeFont | ImageFont.ImageFont
    plain: bool

    def text(self, said: str) -> str:
        """The text in signs that this face has."""
        if not self.plain:
            return said
        spelled = unicodedata.normalize("NFKD", said.translate(PLAIN))
        return "".join(c if " " <= c <= "~" else "?" for c in spelled if not unicodedata.combining(c))

    def width(self, said: str) -> float:
        return self.font.getlength(self.text(said))

    def fit(self, said: str, room: float) -> str:
        """The text, its end left out where there is no room for it."""
        if self.width(said) <= room:
            return said
        low, high = 0, len(said)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.width(said[:middle] + "…") <= room else (low, middle - 1)
        return said[:low].rstrip() + "…"


@lru_cache(maxsize=32)
def face(size: int, bold: bool = False, *, own: bool = False) -> Face:
    """`own` asks for Pillow's face even where DejaVu is here."""
    if not own:
        try:
            return Face(ImageFont.truetype(FACES[bold], size, layout_engine=ImageFont.Layout.BASIC), False)
        except OSError:
            pass
    return Face(ImageFont.load_default(size), True)


def png(card: Card, width: int = WIDTH, *, own_face: bool = False) -> bytes:
    """The picture's file. `width` is one of WIDTHS."""
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    Drawing(ImageDraw.Draw(image), own_face).card(card)
    if width != WIDTH:
        image = image.resize((width, picture_height(width)), Image.Resampling.LANCZOS)
    file = BytesIO()
    image.save(file, "PNG", compress_level=6)  # 9 saves 4 % and takes five times as long
    return file.getvalue()


class Drawing:
    """One card on one sheet. Everything is placed by its top left corner, in pixels of the full size."""

    def __init__(self, draw: ImageDraw.ImageDraw, own_face: bool) -> None:
        self.draw, self.own = draw, own_face

    def face(self, size: int, bold: bool = False) -> Face:
        return face(size, bold, own=self.own)

    def text(
        self, x: float, y: float, said: str, size: int, color: str = INK, *, bold: bool = False,
        right: bool = False, room: float = WIDTH - 2 * EDGE,
    ) -> float:  # fmt: skip
        """One line of text with its top at `y` and its left (or right) end at `x`; gives its width."""
        letters = self.face(size, bold)
        shown = letters.text(letters.fit(said, room))
        self.draw.text((x, y), shown, fill=color, font=letters.font, anchor="ra" if right else "la")
        return letters.font.getlength(shown)

    def card(self, card: Card) -> None:
        self.draw.rectangle((0, 0, WIDTH, 10), fill=ACCENT)
        self.text(EDGE, 40, "Every Number", 26, INK, bold=True)
        self.text(WIDTH - EDGE, 43, card.model, 22, INK_3, right=True, room=600)
        y = self.sentence(card.pieces, 92) + 26
        if card.grid is not None:
            self.grid(card, y)
            return
        y = self.number(card, y) if card.is_number else self.title(card, y)
        self.draw.line((EDGE, y + 18, WIDTH - EDGE, y + 18), fill=RULE, width=2)
        self.text(EDGE, y + 34, card.caption, 22, INK_3)
        self.bars(card, y + 74)

    # -- the text

    def sentence(self, pieces: tuple[Piece, ...], y: float) -> float:
        """The tokens in one or two lines; of a long text the part around what is marked, else its end."""
        size, height, room = 24, 40, WIDTH - 2 * EDGE
        lines = _lines(pieces, self.face(size), room)
        for n, line in enumerate(lines):
            x: float = EDGE
            for piece in line:
                width = self.face(size).width(piece.text) + 14
                box = (x, y + n * (height + 8), x + width, y + n * (height + 8) + height)
                self.draw.rounded_rectangle(
                    box, 4, WASH if piece.marked else PAPER, ACCENT if piece.marked else RULE_2, 2
                )
                self.text(x + 7, box[1] + 5, piece.text, size, ACCENT if piece.marked else INK, room=room - 14)
                x += width + 6
        return y + len(lines) * (height + 8) - 8

    # -- the number

    def number(self, card: Card, y: float) -> float:
        """In large figures, beside them what it is, where it stands, and its address."""
        width = self.text(EDGE, y, card.big, 72, ACCENT, bold=True, room=640)
        left = EDGE + width + 36
        top = y + 6 + (0 if len(card.lines) > 1 else 16)
        for n, line in enumerate((*card.lines, card.address)):
            ink = INK if n == 0 else INK_2 if n < len(card.lines) else INK_3
            self.text(left, top + n * 30, line, 22, ink, room=WIDTH - EDGE - left)
        return y + 90

    def title(self, card: Card, y: float) -> float:
        """In large letters, below it what it says."""
        room = WIDTH - 2 * EDGE
        size = next((s for s in (60, 52, 44, 36) if self.face(s, True).width(card.big) <= room), 36)
        self.text(EDGE, y, card.big, size, ACCENT, bold=True)
        self.text(EDGE, y + size + 18, card.address, 24, INK_2)
        return y + size + 50

    # -- what made it

    def bars(self, card: Card, y: float) -> None:
        """Names, figures and bars: to the right of a line where above zero, to its left where below."""
        if not card.bars:
            return
        pitch = min(46, (HEIGHT - 24 - y) / len(card.bars))
        size = 24 if pitch >= 40 else 22
        names, figures = 400.0, 150.0
        left, right = EDGE + names + figures + 24, WIDTH - EDGE
        most = 1.0 if card.shares else max((abs(bar.value) for bar in card.bars if np.isfinite(bar.value)), default=0.0)
        below = any(bar.value < 0 for bar in card.bars)
        above = any(bar.value > 0 for bar in card.bars)
        zero = left + (right - left) * (0.0 if not below else 0.5 if above else 1.0)
        reach = max(zero - left, right - zero)
        for n, bar in enumerate(card.bars):
            middle = y + n * pitch + pitch / 2
            ink = INK_3 if bar.is_rest else INK
            self.text(EDGE, middle - size / 2 - 3, bar.name, size, ink, room=names - 12)
            self.text(EDGE + names + figures, middle - size / 2 - 3, bar.shown, size, ink, right=True, room=figures)
            self._bar(bar, zero, middle, reach * _share(bar.value, most), pitch, card.shares)
        if not card.shares:
            self.draw.line((zero, y, zero, y + pitch * len(card.bars)), fill=RULE_2, width=2)

    def _bar(self, bar: Bar, zero: float, middle: float, length: float, pitch: float, shares: bool) -> None:
        """Below zero a bar is hollow as well as of the other colour, so that the sign shows without colour."""
        half = pitch * 0.29
        color = RULE_2 if bar.is_rest and shares else INK_2 if shares else POS if bar.value >= 0 else NEG
        box = (min(zero, zero + length), middle - half, max(zero, zero + length), middle + half)
        if box[2] - box[0] < 1:
            box = (zero - 1, middle - half, zero + 1, middle + half)
        if bar.value < 0 and box[2] - box[0] > 6:
            self.draw.rectangle(box, fill=mixed(NEG_DEEPEST, LIGHT[0], 0.35), outline=color, width=3)
        else:
            self.draw.rectangle(box, fill=color)

    # -- several numbers

    def grid(self, card: Card, y: float) -> None:
        """A title to the left; to the right a cell for each number: hue by sign, depth by size, a dash below zero."""
        assert card.grid is not None
        left, room = 560.0, WIDTH - EDGE - 560.0
        title = next((s for s in (52, 44, 36, 28) if self.face(s, True).width(card.big) <= left - EDGE - 32), 28)
        self.text(EDGE, y + 16, card.big, title, ACCENT, bold=True, room=left - EDGE - 32)
        self.text(EDGE, y + title + 40, card.address, 24, INK_2, room=left - EDGE - 32)
        for n, line in enumerate(card.caption.split(", ")):
            self.text(EDGE, y + title + 90 + 32 * n, line, 22, INK_3, room=left - EDGE - 32)
        rows, cols = card.grid.shape
        side = min((HEIGHT - 32 - y) / rows, room / cols, 64.0)
        wide = room / cols if rows * 3 < cols else side
        left += (room - wide * cols) / 2
        self.cells(card, left, y, wide, side)
        self.draw.rectangle((left - 1, y - 1, left + cols * wide, y + rows * side), outline=RULE_2)

    def cells(self, card: Card, left: float, top: float, wide: float, high: float) -> None:
        assert card.grid is not None
        finite = np.where(np.isfinite(card.grid), card.grid, 0.0)
        depth = Scale(float(np.abs(finite).max(initial=0.0)), card.exponent).steps(finite)
        for (r, c), step in np.ndenumerate(depth):
            box = (left + c * wide, top + r * high, left + (c + 1) * wide - 1, top + (r + 1) * high - 1)
            color = mixed(POS_DEEPEST if step > 0 else NEG_DEEPEST, LIGHT[0], abs(int(step)) / STEPS)
            self.draw.rectangle(box, fill=color)
            if step < 0 and high >= 6:
                middle = (box[1] + box[3]) / 2
                self.draw.line((box[0] + wide * 0.3, middle, box[0] + wide * 0.7, middle), fill=INK_2, width=1)


def _share(x: float, most: float) -> float:
    return max(-1.0, min(1.0, x / most)) if most and np.isfinite(x) else 0.0


def _lines(pieces: tuple[Piece, ...], letters: Face, room: float) -> list[list[Piece]]:
    """At most two lines of tokens, the left-out ends shown by an ellipsis: around the last marked token, or the end."""
    marked = [n for n, piece in enumerate(pieces) if piece.marked]
    stop = min(len(pieces), marked[-1] + 4) if marked else len(pieces)
    for start in range(stop):
        before = [Piece("…")] if start else []
        after = [Piece("…")] if stop < len(pieces) else []
        lines = _wrapped([*before, *pieces[start:stop], *after], letters, room)
        while len(lines) <= 2 and stop < len(pieces):
            after = [Piece("…")] if stop + 1 < len(pieces) else []
            longer = _wrapped([*before, *pieces[start : stop + 1], *after], letters, room)
            if len(longer) > 2:
                break
            lines, stop = longer, stop + 1
        if len(lines) <= 2:
            return lines
    return _wrapped(list(pieces[-1:]), letters, room)[:2]


def _wrapped(pieces: list[Piece], letters: Face, room: float) -> list[list[Piece]]:
    lines: list[list[Piece]] = [[]]
    x = 0.0
    for piece in pieces:
        shown = Piece(letters.fit(piece.text, room - 14), piece.marked)
        width = letters.width(shown.text) + 20
        if lines[-1] and x + width - 6 > room:
            lines.append([])
            x = 0.0
        lines[-1].append(shown)
        x += width
    return lines
