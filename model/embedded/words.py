"""The word lists of the sentence generator, with what is held out of the giver/receiver sentences and of agreement.

A held-out word is not unknown to the model: it occurs in plain sentences, in word lists and in the stories, but never
in the relation that it is held out of.
"""

from __future__ import annotations


def listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def a(noun: str) -> str:
    """The noun with its article."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


WOMEN = listed(
    "Mary Lily Anna Sara Sue Mia Lucy Emma Jane Amy Ella Alice Sarah Emily Molly Kate Rose Ruth Grace Lisa Julia "
    "Helen Laura Susan Linda Maria Eva Clara Daisy Bella Betty Ellen Ann Nancy Nina Carol Claire Zoe Ida Jill"
)
MEN = listed(
    "John Tom Tim Ben Max Sam Jack Bob Joe Billy Jim Bill Peter Paul Mark David James Fred Daniel Leo Luke Henry "
    "George Adam Alex Dan Mike Nick Charlie Frank Harry Robert Oliver Andrew Simon Steve Matt Ted Ray Carl"
)
HELD_OUT_WOMEN = listed("Nora Sophie Jenny Martha Rita Kim Wendy Tina")
HELD_OUT_MEN = listed("Eric Oscar Kevin Martin Hugo Roy Jacob Victor")
NAMES = WOMEN + MEN
HELD_OUT_NAMES = HELD_OUT_WOMEN + HELD_OUT_MEN
ALL_NAMES = NAMES + HELD_OUT_NAMES
FEMALE = frozenset(WOMEN + HELD_OUT_WOMEN)

PLACES = listed(
    "store park school house garden beach farm zoo river lake forest kitchen market library town church station "
    "office playground castle shop hill village restaurant hospital museum"
)
OBJECTS = listed(
    "drink book ball toy cake apple ring letter key flower hat box coat map pen cup gift cookie bag doll "
    "bone basket card coin picture rope sandwich scarf shell stick stone ticket balloon blanket bottle"
)
HELD_OUT_OBJECTS = listed("kite lamp spoon drum candle bowl pear glove watch pillow")
ALL_OBJECTS = OBJECTS + HELD_OUT_OBJECTS

# Nouns of the agreement sentences, one and many.
NOUNS = tuple(
    (one, one + "s")
    for one in listed(
        "key cabinet dog boy girl cat book car tree house bird friend flower toy ball door window picture king queen "
        "student teacher farmer doctor letter table chair garden river road boat horse cow duck frog bear rabbit "
        "bike truck hat shoe apple cake"
    )
)
IRREGULAR_NOUNS = (("box", "boxes"), ("child", "children"), ("man", "men"), ("woman", "women"), ("mouse", "mice"))
HELD_OUT_NOUNS = tuple(
    (one, one + "s") for one in listed("lamp spoon drum candle bowl kite pear hen pig nurse plane cup")
)
TRAIN_NOUNS = NOUNS + IRREGULAR_NOUNS
ALL_NOUNS = TRAIN_NOUNS + HELD_OUT_NOUNS

COLOURS = listed("red blue green yellow black white brown pink orange purple")
ADJECTIVES = listed(
    "big small old new little happy sad nice good bad pretty soft warm cold clean dirty long short strong kind "
    "shiny funny heavy quiet loud brave tired hungry"
)
NUMBERS = listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
DAYS = listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = listed("January February March April May June July August September October November December")
ALPHABET = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
CAPITALS = {
    "France": "Paris", "Italy": "Rome", "England": "London", "Spain": "Madrid", "Germany": "Berlin",
    "Japan": "Tokyo", "China": "Beijing", "Russia": "Moscow", "Egypt": "Cairo", "Greece": "Athens",
    "India": "Delhi", "Poland": "Warsaw",
}  # fmt: skip
COLOURED = {
    "sky": "blue", "grass": "green", "snow": "white", "sun": "yellow", "night": "black", "milk": "white",
    "banana": "yellow", "carrot": "orange", "leaf": "green", "blood": "red", "sea": "blue", "coal": "black",
}  # fmt: skip
OPPOSITES = (
    ("hot", "cold"), ("big", "small"), ("old", "new"), ("happy", "sad"), ("up", "down"), ("left", "right"),
    ("good", "bad"), ("long", "short"), ("fast", "slow"), ("day", "night"), ("black", "white"), ("open", "closed"),
    ("high", "low"), ("clean", "dirty"), ("loud", "quiet"), ("wet", "dry"), ("early", "late"), ("full", "empty"),
)  # fmt: skip
SOUNDS = {"dog": "woof", "cat": "meow", "cow": "moo", "duck": "quack", "pig": "oink", "bird": "tweet", "lion": "roar"}
YOUNG = {"dog": "puppy", "cat": "kitten", "cow": "calf", "horse": "foal", "sheep": "lamb", "duck": "duckling"}
EATS = {"dog": "bone", "rabbit": "carrot", "monkey": "banana", "cat": "fish", "cow": "grass", "mouse": "cheese"}
