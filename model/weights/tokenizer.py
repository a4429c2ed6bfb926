"""Byte-level BPE by tiktoken, built from a checkpoint's own files; nothing is downloaded.

A GPT-2 vocabulary file spells each byte as a printable character (`Ġ` is a space). `byte_spelling` is that table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import regex
import tiktoken

from model.errors import CheckpointError, TextError

START = "<|endoftext|>"
NO_TEXT = "\N{REPLACEMENT CHARACTER}".encode()

# GPT-2's pretokenisation (Radford et al. 2019): contractions, words, numbers, other signs, white space.
GPT2_PIECES = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def byte_spelling() -> dict[str, int]:
    """Character -> byte of GPT-2's vocabulary files: visible Latin-1 as itself, the rest from U+0100 on, in order."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [b for b in range(256) if b not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(hidden)}


SPELLING = byte_spelling()


def spelled_bytes(token: str) -> bytes:
    """The bytes that a vocabulary file's spelling of a token stands for."""
    return bytes(SPELLING[c] for c in token)


def spell(raw: bytes) -> str:
    """The spelling of bytes in a vocabulary file."""
    letters = {b: c for c, b in SPELLING.items()}
    return "".join(letters[b] for b in raw)


class Tokenizer:
    """Text to token ids and back.

    `vocab` maps each ordinary token's bytes to its id, listed in merge order (bytes first): tiktoken merges by that
    order, whatever the ids are. A vocabulary without all 256 bytes is *closed*: it can only spell its own words.
    """

    def __init__(self, vocab: dict[bytes, int], start_id: int, pieces: str = GPT2_PIECES) -> None:
        self.start_id = start_id
        self.n_vocab = len(vocab) + 1
        self._bytes = {i: raw for raw, i in vocab.items()}
        self._ids = list(vocab.values())
        self._closed = any(bytes([b]) not in vocab for b in range(256))
        self.vocab = vocab
        self._pieces = regex.compile(pieces)
        self._bpe = tiktoken.Encoding(
            name="checkpoint",
            pat_str=pieces,
            mergeable_ranks={raw: rank for rank, raw in enumerate(vocab)},
            special_tokens={},
        )

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, all of it ordinary text: `<|endoftext|>` typed by a reader is thirteen plain characters.

        Lone surrogates (half an emoji) become U+FFFD. Raises TextError where a closed vocabulary lacks a word.
        """
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if self._closed:
            self._check_words(text)
        return [self._ids[rank] for rank in self._bpe.encode_ordinary(text)]

    def _check_words(self, text: str) -> None:
        for piece in self._pieces.findall(text):
            if piece.encode() not in self.vocab:
                words = ", ".join(f"“{raw.decode()}”" for raw in self.vocab)
                raise TextError(f"“{piece}” is not a word of this small vocabulary.", f"It knows only: {words}.")

    def bytes(self, token: int) -> bytes:
        """The bytes of one token; the start token has none of its own and gives its name, an unused id has none.

        Ids are unused where a checkpoint's tables have more rows than its vocabulary has words.
        """
        return START.encode() if token == self.start_id else self._bytes.get(token, b"")

    def text(self, token: int) -> str | None:
        """The token as text, or None where its bytes are not whole UTF-8 or its id is unused."""
        try:
            return self.bytes(token).decode() or None
        except UnicodeDecodeError:
            return None

    def readable(self, token: int) -> str | None:
        """The token's text if every sign of it can be seen or drawn. None for the start token, an unused id, broken
        UTF-8, control signs, invisible ones, and those that turn the writing direction of what follows.
        """
        if token == self.start_id or token not in self._bytes:
            return None
        text = self.text(token)
        return text if text is not None and text.translate({9: None, 10: None}).isprintable() else None

    def show(self, token: int) -> str:
        """A plain-text form for terminals and titles: ⟨start⟩, text with visible white space, or ⟨E2 82⟩."""
        if token == self.start_id:
            return "⟨start⟩"
        if token not in self._bytes:
            return f"⟨unused {token}⟩"
        text = self.readable(token)
        if text is None:
            return "⟨" + self.bytes(token).hex(" ").upper() + "⟩"
        return text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of several tokens together, the start token left out, broken UTF-8 and unused ids as U+FFFD."""
        return b"".join(self.bytes(t) or NO_TEXT for t in tokens if t != self.start_id).decode("utf-8", "replace")


def write_tokenizer(directory: Path, tokenizer: Tokenizer) -> None:
    """Write `vocab.json` and `merges.txt`. Only for a vocabulary of whole words, which needs no merges."""
    spellings = {START: tokenizer.start_id} | {spell(raw): i for raw, i in tokenizer.vocab.items()}
    (directory / "vocab.json").write_text(json.dumps(spellings, ensure_ascii=False, indent=1) + "\n", "utf-8")
    (directory / "merges.txt").write_text("#version: 0.2\n", "utf-8")


def load_tokenizer(directory: Path) -> Tokenizer:
    """Build from `vocab.json` + `merges.txt`, or from `tokenizer.json`, as a Hugging Face directory holds them."""
    if (directory / "vocab.json").exists():
        spellings = _read_json(directory / "vocab.json")
        merges_file = directory / "merges.txt"
        lines = merges_file.read_text("utf-8").splitlines() if merges_file.exists() else []
        merges = ["".join(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    elif (directory / "tokenizer.json").exists():
        bpe = _read_json(directory / "tokenizer.json")
        if bpe["model"].get("type", "BPE") != "BPE":
            raise CheckpointError(f"{directory}/tokenizer.json: the model is {bpe['model']['type']!r}, not 'BPE'")
        spellings = bpe["model"]["vocab"] | {t["content"]: t["id"] for t in bpe.get("added_tokens", [])}
        merges = ["".join(m.split(" ") if isinstance(m, str) else m) for m in bpe["model"]["merges"]]
    else:
        raise CheckpointError(f"{directory}: no tokenizer", "Add vocab.json and merges.txt, or tokenizer.json.")
    return tokenizer_from(spellings, merges, str(directory))


def tokenizer_from(spellings: dict[str, int], merges: list[str], where: str) -> Tokenizer:
    """`spellings` is vocab.json; `merges` the merged spellings in order. Tokens that no merge makes come first."""
    if START not in spellings:
        raise CheckpointError(f"{where}: the vocabulary has no {START}")
    merged = {m for m in merges if m in spellings}
    first = sorted((s for s in spellings if s not in merged and s != START), key=spellings.__getitem__)
    try:
        vocab = {spelled_bytes(s): spellings[s] for s in [*first, *dict.fromkeys(m for m in merges if m in merged)]}
    except KeyError as sign:
        raise CheckpointError(f"{where}: {sign.args[0]!r} is no byte's spelling in a GPT-2 vocabulary") from None
    return Tokenizer(vocab, spellings[START])


def _read_json(path: Path) -> dict:  # type: ignore[type-arg]
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as fault:
        raise CheckpointError(f"{path}: not valid JSON ({fault})") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: a JSON object was expected")
    return found
