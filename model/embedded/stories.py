"""TinyStories (Eldan & Li 2023) cleaned: mojibake undone, quotes straightened, the true case restored.

A directory holds `tinystories_1000.json` (a list of stories in their true case) and `tinystories_lowercase.txt` (more
stories, all in lower case). What is lower case is put right by what the true-case stories show: sentences start with a
capital, `I` is one, and a word is a name if it stands capitalised in the middle of their sentences.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from model.embedded.words import ALL_NAMES, DAYS, MONTHS

WORD = re.compile(r"[A-Za-z]+")
# A place where a sentence starts: the text's start, after . ! ? or ." (what follows !" is mostly `he said`), after an
# opening quote, or on a new line.
SENTENCE_START = re.compile(r"(^|[.!?]\s+|\.[\"']\s+|\n\s*|[,:]\s+\")([\"']?)([a-z])")
# Found as names by the counts below, yet more often plain words in these stories.
PLAIN_WORDS = {"rose", "mark", "may", "bill", "daisy", "acceptor", "caw", "snail", "midnight", "god", "ok"}
SMALLEST = 200  # characters; anything shorter is a stray piece, not a story

QUOTES = str.maketrans({"“": '"', "”": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "..."})


def unmojibake(text: str) -> str:
    """UTF-8 that was once read as cp1252 (`donâ€™t`) read back as UTF-8; bytes that cp1252 lacks were lost."""
    text = re.sub(r"â€(?![\w™˜œ“”¦])", '"', text)  # the closing quote, whose third byte cp1252 has no letter for
    for broken, whole in (("â€™", "'"), ("â€˜", "'"), ("â€œ", '"'), ("â€“", "-"), ("â€”", "-"), ("â€¦", "...")):
        text = text.replace(broken, whole)
    return text.replace("â€", '"').translate(QUOTES)


def clean(story: str) -> str:
    """One story in plain ASCII, paragraphs parted by one newline."""
    story = unmojibake(story).encode("ascii", "ignore").decode()
    return re.sub(r" *\n\s*", "\n", re.sub(r"[ \t]+", " ", story)).strip()


def split_stories(text: str) -> list[str]:
    """The lower-case file as stories: a single newline parts two stories, an empty line two paragraphs of one."""
    stories: list[str] = []
    for piece in re.split(r"(?<!\n)\n(?!\n)", text):
        opens_speech = piece.lstrip().startswith(('"', "'", "â€"))
        if stories and (opens_speech or len(stories[-1]) < SMALLEST or len(piece) < SMALLEST):
            stories[-1] += "\n" + piece
        else:
            stories.append(piece)
    return stories


def names_in(stories: list[str]) -> set[str]:
    """Words that stand capitalised inside a sentence of true-case stories at least twice as often as in lower case."""
    upper: Counter[str] = Counter()
    lower: Counter[str] = Counter()
    for story in stories:
        for match in re.finditer(r"(?<=[a-z,] )[A-Za-z]+", story):
            (upper if match[0][0].isupper() else lower)[match[0].lower()] += 1
    return {word for word, n in upper.items() if n >= 2 and n > 2 * lower[word] and len(word) > 1}


def names_introduced(lower_stories: list[str]) -> set[str]:
    """Names that lower-case stories introduce: `a girl named lily`."""
    found = Counter(m[1] for s in lower_stories for m in re.finditer(r"\bnamed ([a-z]+)", s))
    plain = Counter(m[1] for s in lower_stories for m in re.finditer(r"\b(?:the|a|an|his|her|to) ([a-z]+)", s))
    return {name for name, n in found.items() if n > plain[name]}


def restore_case(story: str, names: set[str]) -> str:
    """A lower-case story with names, `I` and sentence starts in capitals."""
    story = WORD.sub(lambda m: m[0].capitalize() if m[0] in names else m[0], story)
    story = re.sub(r"\bi\b", "I", story)
    return SENTENCE_START.sub(lambda m: m[1] + m[2] + m[3].upper(), story)


def load_stories(directory: Path) -> list[str]:
    """All stories of a directory, cleaned, in true case, each once, in the files' order."""
    true_case = [clean(s) for s in json.loads((directory / "tinystories_1000.json").read_text(encoding="utf-8"))]
    text = (directory / "tinystories_lowercase.txt").read_text(encoding="utf-8", errors="replace")
    lower = [clean(s) for s in split_stories(text)]
    names = names_in(true_case) | names_introduced(lower)
    names |= {word.lower() for word in ALL_NAMES + DAYS} | {m.lower() for m in MONTHS if m not in ("May", "March")}
    names -= PLAIN_WORDS
    known = {s.lower()[:80] for s in true_case}
    stories = true_case + [restore_case(s, names) for s in lower if s[:80] not in known]
    return [s for s in dict.fromkeys(stories) if len(s) >= SMALLEST]


def split_held_out(stories: list[str]) -> tuple[list[str], list[str]]:
    """(training stories, held-out stories): every fiftieth story is held out, whole."""
    return [s for i, s in enumerate(stories) if i % 50], stories[::50]
