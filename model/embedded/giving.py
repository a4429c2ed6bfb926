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

VERBS = w.listed("gave handed passed offered showed threw brought sent sold lent")

# The first half of a giver/receiver sentence, {P} a place.
OPENINGS = (
    "When {A} and {B} went to the {P}, ",
    "When {A} and {B} were at the {P}, ",
    "When {A} and {B} got to the {P}, ",
    "After {A} and {B} went to the {P}, ",
    "After {A} and {B} had walked to the {P}, ",
    "While {A} and {B} were playing in the {P}, ",
    "While {A} and {B} sat near the {P}, ",
    "As {A} and {B} left the {P}, ",
    "{A} and {B} went to the {P}. ",
    "{A} and {B} were in the {P}. ",
    "{A} and {B} met at the {P}. ",
    "Then, {A} and {B} went to the {P}. ",
    "One day, {A} and {B} went to the {P}. ",
    "Once upon a time, {A} and {B} lived near the {P}. ",
    "Friends {A} and {B} walked to the {P}. ",
    "{A} saw {B} at the {P}. ",
    "{A} went to the {P} with {B}. ",
    "At the {P}, {A} met {B}. ",
    "Yesterday {A} and {B} had fun at the {P}, and ",
    "{A} and {B} were friends. ",
)
HELD_OUT_OPENINGS = (
    "When {A} and {B} came home from the {P}, ",
    "Before {A} and {B} went to the {P}, ",
    "{A} and {B} had a nice day at the {P}. ",
    "Last night, {A} and {B} were at the {P}. ",
    "{A} and {B} played together in the {P} and ",
    "Near the {P}, {A} and {B} sat down. ",
)
MIDDLES = (
    "",
    "",
    "",
    "",
    "",
    "The sun was warm. ",
    "It was a nice day. ",
    "They were happy. ",
    "They had fun. ",
    "It was late. ",
)
HELD_OUT_MIDDLES = ("", "", "", "It was a cold day. ", "They were tired. ")


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


TIMES = (
    "", "", "", "One day, ", "Today ", "This morning, ", "In the evening, ", "On Sunday ", "In the summer, ",
    "Every day, ", "A long time ago, ", "At noon, ", "That day, ", "Before lunch, ",
)  # fmt: skip
ACTIONS = (
    "went to the {P}", "walked to the {P}", "came to the {P}", "ran to the {P}", "were at the {P}", "sat in the {P}",
    "stood near the {P}", "had lunch at the {P}", "played near the {P}", "got back from the {P}", "worked in the {P}",
    "met in the {P}", "lived near the {P}", "had a good time in the {P}", "came back to the {P}", "left the {P}",
    "sat down near the {P}", "waited in the {P}", "drove to the {P}", "came from the {P}",
)  # fmt: skip
JOINTS = (
    "{T}{A} and {B} {X}. ", "{T}{A} and {B} {X}. ", "{T}{A} and {B} {X}, and ", "{T}{A} and {B} {X} and then ",
    "When {A} and {B} {X}, ", "After {A} and {B} {X}, ", "While {A} and {B} {X}, ", "As {A} and {B} {X}, ",
    "Because {A} and {B} {X}, ", "Once {A} and {B} {X}, ", "The day {A} and {B} {X}, ", "{T}{A} {X} with {B}. ",
)  # fmt: skip


MORE_JOINTS = (
    *JOINTS,
    "At the {{P}}, {A} and {B} met. ", "In the {{P}}, {A} and {B} talked. ", "Behind the {{P}}, {A} and {B} played. ",
    "By the {{P}}, {A} and {B} had lunch. ", "In front of the {{P}}, {A} and {B} stood and waited. ",
    "{T}{A} and {B} {X} and ", "{T}{A} and {B} {X} and ",
)  # fmt: skip


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
