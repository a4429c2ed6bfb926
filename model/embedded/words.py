"""The words and frames of the sentence generator, as `sentences.toml` has them, and the lists put together of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

DATA = tomllib.loads((Path(__file__).parent / "sentences.toml").read_text("utf-8"))


def words(name: str) -> tuple[str, ...]:
    """A list of single words."""
    return tuple(DATA["words"][name].split())


def frames(name: str) -> tuple[str, ...]:
    """A list of phrases, or of sentences with places for words."""
    return tuple(DATA["frames"][name])


def pairs(name: str) -> tuple[tuple[str, str], ...]:
    """A list of two words each."""
    return tuple((one, other) for one, other in DATA["pairs"][name])


def a(noun: str) -> str:
    """The noun with its article."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


WOMEN, MEN = words("women"), words("men")
HELD_OUT_WOMEN, HELD_OUT_MEN = words("held_out_women"), words("held_out_men")
NAMES = WOMEN + MEN
HELD_OUT_NAMES = HELD_OUT_WOMEN + HELD_OUT_MEN
ALL_NAMES = NAMES + HELD_OUT_NAMES
FEMALE = frozenset(WOMEN + HELD_OUT_WOMEN)

PLACES = words("places")
OBJECTS, HELD_OUT_OBJECTS = words("objects"), words("held_out_objects")
ALL_OBJECTS = OBJECTS + HELD_OUT_OBJECTS

# Nouns of the agreement sentences, one and many.
TRAIN_NOUNS = tuple((one, f"{one}s") for one in words("nouns")) + pairs("irregular_nouns")
HELD_OUT_NOUNS = tuple((one, f"{one}s") for one in words("held_out_nouns"))
ALL_NOUNS = TRAIN_NOUNS + HELD_OUT_NOUNS

COLOURS, ADJECTIVES, NUMBERS = words("colours"), words("adjectives"), words("numbers")
DAYS, MONTHS = words("days"), words("months")
ALPHABET = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
OPPOSITES = pairs("opposites")

FACTS: dict[str, dict[str, str]] = DATA["facts"]
CAPITALS, COLOURED, SOUNDS = FACTS["capitals"], FACTS["coloured"], FACTS["sounds"]
YOUNG, EATS = FACTS["young"], FACTS["eats"]
