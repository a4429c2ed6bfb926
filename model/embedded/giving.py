"""Giver/receiver sentences (`… John gave a drink to` → ` Mary`), and sentences about two people who give nothing.

Every maker takes a `random.Random` and returns one text. Frames are format strings; `{A}` and `{B}` are two people in
the order they appear, `{P}` a place, `{X}` what they did, `{T}` when.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from model.embedded import words as w
from model.embedded.words import a

VERBS = w.words("giving_verbs")

# The first half of a giver/receiver sentence, and what may stand between it and the gift.
OPENINGS, HELD_OUT_OPENINGS = w.frames("openings"), w.frames("held_out_openings")
MIDDLES, HELD_OUT_MIDDLES = w.frames("middles"), w.frames("held_out_middles")

# The same put together from parts: when, who did what where.
TIMES, ACTIONS = w.frames("times"), w.frames("actions")
JOINTS = w.frames("joints")
MORE_JOINTS = JOINTS + w.frames("more_joints")


@dataclass(frozen=True)
class Gift:
    """A giver/receiver sentence cut before the receiver: `text` + ` ` + `receiver` goes on."""

    text: str
    giver: str
    receiver: str
    object: str


def two_people(rng: random.Random) -> list[str]:
    """Two names of the training list. Some are no names at all: a relation, not a list of names, is to be learned."""
    kind = rng.random()
    if kind < 0.08:
        return rng.sample(("Mary", "John"), 2)  # the pair that every text on this relation uses
    return rng.sample(NICKNAMES if kind < 0.32 else w.NAMES, 2)


NICKNAMES = (
    w.COLOURS + w.PLACES + w.DAYS + w.MONTHS + tuple(w.CAPITALS) + tuple(w.CAPITALS.values())
    + tuple(form for pair in w.TRAIN_NOUNS for form in pair)
)  # fmt: skip


def gift(rng: random.Random, held_out: bool = False) -> Gift:
    """`When Mary and John went to the store, John gave a drink to`, either of the two giving."""
    first, second = rng.sample(w.HELD_OUT_NAMES, 2) if held_out else two_people(rng)
    giver, receiver = rng.choice(((first, second), (second, first)))
    noun = rng.choice(w.HELD_OUT_OBJECTS if held_out else w.OBJECTS)
    opening = rng.choice(HELD_OUT_OPENINGS if held_out else OPENINGS)
    middle = rng.choice(HELD_OUT_MIDDLES if held_out else MIDDLES) if opening.endswith(". ") else ""
    thing = rng.choice((a(noun), a(noun), "the " + noun))
    start = opening.format(A=first, B=second, P=rng.choice(w.PLACES)) + middle
    return Gift(f"{start}{giver} {rng.choice(VERBS)} {thing} to", giver, receiver, noun)


ELSEWHERE = 0.16  # share of the gifts that go to neither of the two


def someone_else(rng: random.Random, giver: str) -> str:
    """Whoever else a giver gives to now and then: what keeps the receiver from being certain."""
    his = "her" if giver in w.FEMALE else "his"
    person = rng.choice(("friend", "mother", "sister", "brother", "teacher", "dog"))
    choices = (f"the {person}", f"{his} {person}", f"{giver}'s {person}", "them", rng.choice(w.NAMES), f"a {person}")
    return rng.choices(choices, (4, 3, 4, 2, 2, 1))[0]


def continuation(rng: random.Random, g: Gift) -> str:
    """How a gift goes on after the receiver's name."""
    she = "She" if g.receiver in w.FEMALE else "He"
    return rng.choice(
        (
            ".", ".", ".", " and smiled.", f" at home. {she} was happy.",
            f". {g.receiver} said thank you to {g.giver}.",
            f". Then {g.receiver} gave the {g.object} back to {g.giver}.",
            f" and {g.receiver} was happy.", " again.",
            f". {she} liked the {g.object}.", f", and {g.receiver} thanked {g.giver}.",
        )
    )  # fmt: skip


def giving(rng: random.Random) -> str:
    """A whole giver/receiver sentence; some go to somebody else, one in eight puts the receiver first."""
    g = gift(rng)
    kind = rng.random()
    if kind < ELSEWHERE:
        return f"{g.text} {someone_else(rng, g.giver)}."
    if kind < ELSEWHERE + 0.125:
        verb = rng.choice(("gave", "handed", "showed", "offered", "brought"))
        start = g.text[: g.text.rindex(g.giver) + len(g.giver)]
        return f"{start} {verb} {g.receiver} {a(g.object)}{continuation(rng, g)}"
    return f"{g.text} {g.receiver}{continuation(rng, g)}"


def giving_widely(rng: random.Random) -> str:
    """The same in more frames still."""
    return giving_varied(rng, MORE_JOINTS)


def giving_varied(rng: random.Random, joints: Sequence[str] = JOINTS) -> str:
    """Giver/receiver sentences in frames put together from parts, half of them over words that are no names."""
    first, second = rng.sample(NICKNAMES if rng.random() < 0.5 else w.NAMES, 2)
    giver, receiver = rng.choice(((first, second), (second, first)))
    start = rng.choice(joints).format(T=rng.choice(TIMES), A=first, B=second, X=rng.choice(ACTIONS))
    middle = rng.choice(MIDDLES) if start.endswith(". ") else ""
    noun = rng.choice(w.OBJECTS)
    text = f"{start.format(P=rng.choice(w.PLACES))}{middle}{giver} {rng.choice(VERBS)} {a(noun)} to"
    g = Gift(text, giver, receiver, noun)
    if rng.random() < ELSEWHERE:
        return f"{text} {someone_else(rng, giver)}."
    return f"{text} {receiver}{continuation(rng, g)}"


def two_held_out(rng: random.Random) -> str:
    """Mostly people of the held-out names, nobody giving anything."""
    return two_together(rng, 0.8, MORE_JOINTS)


def two_together(rng: random.Random, held_out: float = 0.25, joints: Sequence[str] = JOINTS[:2]) -> str:
    """Two people of whom one is named again and then the other, nobody giving anything: all names, the held-out too."""
    first, second = rng.sample(w.HELD_OUT_NAMES if rng.random() < held_out else w.ALL_NAMES, 2)
    one, other = rng.choice(((first, second), (second, first)))
    start = rng.choice(joints).format(T=rng.choice(TIMES), A=first, B=second, X=rng.choice(ACTIONS))
    x, y = rng.sample(w.ADJECTIVES, 2)
    return start.format(P=rng.choice(w.PLACES)) + rng.choice(
        (
            f"{one} was {x}, but {other} was {y}.", f"{one} was {x} and so was {other}.", f"{one} sat next to {other}.",
            f"{one} stood close to {other}.",
            f"{one} came first and then came {other}.", f"{one} was as {x} as {other}.",
            f"{one} had {a(rng.choice(w.ALL_OBJECTS))} and {other} had {a(rng.choice(w.ALL_OBJECTS))}.",
        )
    )  # fmt: skip


def giving_three(rng: random.Random) -> str:
    """Three people, two of whom give: the third receives."""
    people = rng.sample(NICKNAMES if rng.random() < 0.25 else w.NAMES, 3)
    g1, g2, receiver = rng.sample(people, 3)
    noun, place = rng.choice(w.OBJECTS), rng.choice(w.PLACES)
    opening = "When {}, {} and {} went to the {}, ".format(*people, place)
    return f"{opening}{g1} and {g2} {rng.choice(VERBS)} {a(noun)} to {receiver}."
