"""Where a giver/receiver sentence asks for a name that was said before, and what one head is taught to do there.

Left alone, a network of this size answers with two heads that fetch the first and the second name, whoever gives, and
picks between them later; which head picks cannot be seen. So training asks one head of the last block to look from
`to` at the receiver, and the other heads not to: as GPT-2's own name movers do (Wang et al. 2022, arXiv 2211.00593),
which found that way by themselves in a network many times larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.embedded.giving import NICKNAMES
from model.embedded.words import ALL_NAMES
from model.weights.tokenizer import Tokenizer

HEAD = 2  # of the last block


@dataclass(frozen=True)
class People:
    """The tokens that matter here: ` to`, the start token, and the first token of everybody's name."""

    to: int
    start: int
    names: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> People:
        names = frozenset(tokenizer.encode(" " + name)[0] for name in (*ALL_NAMES, *NICKNAMES))
        return cls(tokenizer.encode(" to")[0], tokenizer.start_id, names)

    def lookups(self, row: Sequence[int]) -> list[tuple[int, int]]:
        """(query, key) for each ` to` of a row [pos + 1] that goes on with a name said before in the document."""
        found, said = [], dict[int, int]()
        for at, token in enumerate(row):
            if token == self.start:
                said = {}
            elif token in self.names:
                if row[at - 1] == self.to and token in said:
                    found.append((at - 1, said[token]))
                said.setdefault(token, at)
        return found


def teaching(people: People, rows: Tensor, patterns: list[Tensor], head: int = HEAD) -> tuple[Tensor, Tensor] | None:
    """What a step's attention costs, (that of the taught head, that of all others); None where no name is asked for.

    The first is the mean over the lookups of −log a, a the taught head's attention to the name; the second of
    Σ −log(1 − a) over every other head.

    Args:
        rows: token ids [row, pos + 1].
        patterns: each block's attention [row, head, query, key].
        head: the taught head, of the last block.
    """
    places = [(r, q, k) for r, row in enumerate(rows.tolist()) for q, k in people.lookups(row)]
    if not places:
        return None
    r, q, k = torch.tensor(places).T
    shares = torch.stack([p[r, :, q, k].float() for p in patterns], 1)  # [lookup, block, head]
    taught = shares[:, -1, head]
    elsewhere = -torch.log1p(-shares.clamp(max=0.999))
    return -(taught + 1e-6).log().mean(), (elsewhere.sum((1, 2)) - elsewhere[:, -1, head]).mean()
