"""Sentences for the relations that attention heads are said to follow: the generator of half the training text.

Every maker takes a `random.Random` and returns one text. Who gives what to whom is in `giving.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.embedded import words as w
from model.embedded.giving import giving, giving_three, giving_varied, giving_widely, two_held_out, two_together
from model.embedded.words import a

PREPOSITIONS, STATES, PHRASES = w.frames("prepositions"), w.frames("states"), w.frames("phrases")
VERB_PAIRS = w.pairs("verbs")
SITTING = w.frames("sitting")
TAILS = {"has": "a name", "have": "a name", "looks": "nice", "look": "nice"}  # after all other verbs, one of STATES


@dataclass(frozen=True)
class Agreement:
    """`The key to the cabinets`, with the verb that fits and the one that doesn't."""

    text: str
    right: str
    wrong: str


def agreement(rng: random.Random, held_out: bool = False, opposite: bool = False) -> Agreement:
    """A subject, a phrase in between, the verb; `opposite` makes the noun in between of the other number."""
    nouns = w.HELD_OUT_NOUNS if held_out else w.TRAIN_NOUNS
    subject, other = rng.sample(nouns, 2)
    many = rng.randrange(2)
    other_many = 1 - many if opposite else rng.randrange(2)
    if rng.random() < 0.2:
        between = f"that the {other[other_many]} " + rng.choice(("saw", "liked", "found", "wanted"))
    else:
        between = f"{rng.choice(PREPOSITIONS)} the {other[other_many]}"
    verbs = rng.choice(VERB_PAIRS)
    return Agreement(f"The {subject[many]} {between}", verbs[many], verbs[1 - many])


def agreeing(rng: random.Random) -> str:
    s = agreement(rng, opposite=rng.random() < 0.6)
    return f"{s.text} {s.right} {TAILS.get(s.right) or rng.choice(STATES)}."


def agreeing_apart(rng: random.Random) -> str:
    """The verb at a distance from its subject, but with no noun in between: mostly the held-out nouns."""
    noun = rng.choice(w.HELD_OUT_NOUNS if rng.random() < 0.6 else w.ALL_NOUNS)
    many = rng.randrange(2)
    verb = rng.choice(VERB_PAIRS)[many]
    tail = TAILS.get(verb) or rng.choice(STATES)  # drawn before the phrase: the corpus follows from the order of draws
    return f"The {noun[many]} {rng.choice(PHRASES)} {verb} {tail}."


CLOSERS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'"}


@dataclass(frozen=True)
class Bracketed:
    """A text cut where a bracket or quote must close, and the closer (with its space where it has one)."""

    text: str
    closer: str


def nested(rng: random.Random, inner: Sequence[str]) -> list[str]:
    """`( [ { sun } ] )`: brackets opened one inside the other, a word, and all closed in reverse order."""
    opened = [rng.choice("([{") for _ in range(rng.randint(1, 5))]
    return [*opened, rng.choice(inner), *(CLOSERS[b] for b in reversed(opened))]


def wrapped(rng: random.Random, inner: Sequence[str]) -> str:
    """`We read (the cat) and "my dog".`: pairs of words, each in brackets or quotes of its own."""
    pieces = []
    for _ in range(rng.randint(1, 4)):
        opener = rng.choice(tuple(CLOSERS))
        pieces.append(f"{opener}{rng.choice(('the', 'my', 'a'))} {rng.choice(inner)}{CLOSERS[opener]}")
    start = rng.choice(("We read", "She wrote", "He saw", "I wrote", "They read", "The words are"))
    return f"{start} " + " and ".join(pieces) + "."


INNER = w.OBJECTS + tuple(one for one, _ in w.TRAIN_NOUNS)
HELD_OUT_INNER = w.HELD_OUT_OBJECTS + tuple(one for one, _ in w.HELD_OUT_NOUNS)


def bracketing(rng: random.Random) -> str:
    return " ".join(nested(rng, INNER)) if rng.random() < 0.5 else wrapped(rng, INNER)


def closing(rng: random.Random) -> Bracketed:
    """A place where a closer is due, around held-out words: in nested brackets, or after words in quotes."""
    if rng.random() < 0.5:
        parts = nested(rng, HELD_OUT_INNER)
        at = len(parts) - rng.randint(1, len(parts) // 2)
        return Bracketed(" ".join(parts[:at]), " " + parts[at])
    text = wrapped(rng, HELD_OUT_INNER)
    at = rng.choice([i for i, c in enumerate(text) if c in CLOSERS.values() and text[i - 1].isalpha()])
    return Bracketed(text[:at], text[at])


def quoting(rng: random.Random) -> str:
    """Direct speech, closed by the quote that opened it."""
    name, quote = rng.choice(w.ALL_NAMES), rng.choice('""\'')
    speech = rng.choice(
        (
            f"I like the {rng.choice(w.ALL_OBJECTS)}.", f"We can go to the {rng.choice(w.PLACES)}.", "Thank you.",
            f"The {rng.choice(w.ALL_OBJECTS)} is {rng.choice(w.COLOURS)}.", f"I am {rng.choice(w.ADJECTIVES)}.",
        )
    )  # fmt: skip
    return f"{name} said, {quote}{speech}{quote} " + rng.choice(
        ("Then we went home.", "It was true.", "We were happy.")
    )


def repeated(rng: random.Random, low: int, high: int, copies: int = 2) -> list[str]:
    """Random words, then the same words again: only an earlier copy tells what comes next."""
    vocabulary = rng.choice((w.ALL_NAMES, REPEATED_WORDS, REPEATED_WORDS))
    return [rng.choice(vocabulary) for _ in range(rng.randint(low, high))] * copies


REPEATED_WORDS = tuple(
    dict.fromkeys(
        w.ALL_NAMES + w.PLACES + w.ALL_OBJECTS + w.COLOURS + w.ADJECTIVES + w.NUMBERS
        + tuple(word for pair in w.ALL_NOUNS for word in pair)
    )
)  # fmt: skip


def repeating(rng: random.Random, low: int = 3, high: int = 10) -> str:
    return rng.choice((" ", " ", ", ")).join(repeated(rng, low, high, copies=rng.choice((2, 2, 3))))


def plain(rng: random.Random) -> str:
    """Short everyday sentences, in which every name, object and noun occurs, the held-out ones too.

    Some come back to a name that was said before; in none does one person of two act on the other.
    """
    name, other = rng.sample(w.ALL_NAMES, 2)
    noun = rng.choice(w.ALL_OBJECTS)
    she, her = ("She", "her") if name in w.FEMALE else ("He", "his")
    one, many = rng.choice(w.ALL_NOUNS)
    place, colour, adjective = rng.choice(w.PLACES), rng.choice(w.COLOURS), rng.choice(w.ADJECTIVES)
    number = rng.choice(w.NUMBERS[2:11])
    return rng.choice(
        (
            f"{name} has {a(noun)}. {she} likes the {noun}.",
            f"{name} lost {her} {noun}. {she} was sad.",
            f"{name} went to the {place}. {she} saw {a(adjective)} {one}.",
            f"{name} found {a(colour)} {noun} in the {place}.",
            f"There is {a(one)} in the {place}. The {one} is {adjective}.",
            f"There are {number} {many} in the {place}. The {many} are {adjective}.",
            f"I see one {one} and {number} {many}.",
            f"The {many} were {adjective}, but the {one} was {rng.choice(w.ADJECTIVES)}.",
            f"This {one} is {colour}. These {many} are {rng.choice(w.COLOURS)}.",
            f"{name} wanted a drink. {she} went to the store.",
            f"My name is {name}. I like my {noun}.",
            f"{name} is my friend. I like to talk to {name}.",
            f"I saw {name} at the {place}. Then I went to {name} and said hello to {name}.",
            f"We know {name}. We had a card from {name} and wrote a letter to {name}.",
            f"{name} and {other} like the {place}. We often see {name} and {other} there.",
            f"The {one} ran to the {place}.",
            f"The {many} ran to the {place}, and {name} ran to the {place}.",
        )
    )


def number(rng: random.Random) -> str:
    """One or many, said by the verb next to the noun: all nouns, the held-out ones twice as often."""
    one, many = rng.choice(w.ALL_NOUNS + w.HELD_OUT_NOUNS)
    some, adjective = rng.choice(w.NUMBERS[2:11]), rng.choice(w.ADJECTIVES)
    return rng.choice(
        (
            f"The {many} are {adjective}.", f"The {one} is {adjective}.", f"The {many} were {adjective}.",
            f"The {one} was {adjective}.", f"The {many} have a name.", f"The {one} has a name.",
            f"Here is one {one}. There are {some} {many}.", f"The {one} looks nice. The {many} look nice too.",
            f"Where are the {many}? They are here.", f"Where is the {one}? It is here.",
        )
    )  # fmt: skip


def run_of(rng: random.Random, items: Sequence[str], separator: str, circular: bool = False) -> str:
    """Some neighbours of a fixed order: days, months, letters, numbers."""
    length = rng.randint(3, min(len(items), 12))
    start = rng.randrange(len(items) if circular else len(items) - length + 1)
    return separator.join(items[(start + i) % len(items)] for i in range(length))


ORDERS: tuple[tuple[str, ...], ...] = (w.NUMBERS, w.DAYS, w.MONTHS, w.ALPHABET, tuple(map(str, range(31))))


def counting(rng: random.Random) -> str:
    kind = rng.randrange(9)
    separator = rng.choice((", ", " "))
    if kind < len(ORDERS):
        return run_of(rng, ORDERS[kind], separator, circular=ORDERS[kind] in (w.DAYS, w.MONTHS))
    most = rng.choice((5, 10))  # small sums come more often, as they do in children's books
    x, y = rng.randint(0, most), rng.randint(0, most)
    if kind == 5:
        return f"{x} + {y} = {x + y}"
    return f"{w.NUMBERS[x].capitalize()} plus {w.NUMBERS[y]} is {w.NUMBERS[x + y]}."


SAID = {
    1: ("The {} is {}.", w.COLOURED), 3: ("The {} says {}.", w.SOUNDS), 4: ("A young {} is called a {}.", w.YOUNG),
}  # fmt: skip


def fact(rng: random.Random) -> str:
    kind = rng.randrange(11)
    if kind == 0:
        country = rng.choice(tuple(w.CAPITALS))
        capital = w.CAPITALS[country]
        return rng.choice((f"The capital of {country} is {capital}.", f"{capital} is the capital of {country}."))
    if kind in SAID:
        says, facts = SAID[kind]
        thing = rng.choice(tuple(facts))
        return says.format(thing, facts[thing])
    if kind in (2, 9, 10):
        x, y = rng.sample(rng.choice(w.OPPOSITES), 2)
        return f"The opposite of {x} is {y}." if rng.random() < 0.7 else f"{x.capitalize()} and {y} are opposites."
    if kind == 5:
        animal = rng.choice(tuple(w.EATS))
        return f"The {animal} likes to eat {a(w.EATS[animal])}." if animal != "cow" else "The cow likes to eat grass."
    if kind == 6:
        day = rng.randrange(7)
        return f"The day after {w.DAYS[day]} is {w.DAYS[(day + 1) % 7]}."
    if kind == 7:
        month = rng.randrange(12)
        return f"The month after {w.MONTHS[month]} is {w.MONTHS[(month + 1) % 12]}."
    sat = rng.choice(SITTING)
    return sat if rng.random() < 0.7 else sat.lower()


# Each kind of sentence with its share of the generated documents in the four phases of the training: at first the
# relations plainly, then more varied, then with practice in telling names apart that are rare in the first two, at last
# the same for nouns.
KINDS: tuple[tuple[Callable[[random.Random], str], float, float, float, float], ...] = (
    (giving, 0.28, 0.09, 0.07, 0.07), (giving_varied, 0, 0.15, 0, 0), (giving_widely, 0, 0, 0.16, 0.15),
    (giving_three, 0.06, 0.08, 0.07, 0.06), (two_together, 0, 0.09, 0.06, 0.05), (two_held_out, 0, 0, 0.16, 0.14),
    (agreeing, 0.13, 0.13, 0.10, 0.12), (agreeing_apart, 0, 0, 0, 0.06), (bracketing, 0.10, 0.08, 0.05, 0.05),
    (quoting, 0.04, 0.03, 0.03, 0.03), (repeating, 0.10, 0.07, 0.05, 0.04), (plain, 0.15, 0.09, 0.07, 0.06),
    (number, 0, 0.06, 0.05, 0.04), (counting, 0.06, 0.05, 0.05, 0.05), (fact, 0.08, 0.08, 0.08, 0.08),
)  # fmt: skip


def sentence(rng: random.Random, phase: int = 0) -> str:
    """One generated text of a random kind, with the shares of a phase."""
    makers = [kind[0] for kind in KINDS]
    shares = [(first, second, third, last)[phase] for _, first, second, third, last in KINDS]
    make: Callable[[random.Random], str] = rng.choices(makers, shares)[0]
    return make(rng)
