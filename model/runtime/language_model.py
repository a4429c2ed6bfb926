"""A language model, ready to run on a text and to go on with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from model.errors import TargetError
from model.ops.values import Prompt
from model.runtime.generate import Step, generate
from model.runtime.loaded import SEQUENCE, LoadedModel
from model.runtime.long_run import LongRun
from model.runtime.run import Run

WHOLE = 2**30  # bytes of captured sites up to which a run is kept whole


class LanguageModel(LoadedModel):
    """A loaded checkpoint with what it does."""

    def run(
        self,
        text: str,
        target: str | None = None,
        *,
        bos: bool = True,
        changes: Sequence[str] = (),
        whole: int = WHOLE,
    ) -> Run:
        """Run the network on `text`, capturing every site.

        `target` is one token (its −log p at the last position is the loss), None for the model's own first guess, or
        "sequence" for the mean loss over the text's own next tokens. `changes` set numbers on the way, each written as
        `parse_patch` reads it; with a `target` of None the target is the unchanged run's guess. A run whose sites would
        take more than `whole` bytes keeps its residual stream alone: see `model.runtime.long_run`.
        """
        tokens = self.encode(text, bos=bos)
        is_sequence = target == SEQUENCE
        if is_sequence and len(tokens) < 2:
            raise TargetError("The loss over the sequence needs a text of at least two tokens.", "Type another word.")
        token = None if is_sequence else self.target_id(target)
        kind = LongRun if self.sites_nbytes(len(tokens)) > whole else Run
        run = kind.of(self, Prompt(text, tuple(tokens), bos, token, is_sequence))
        return run.changed(changes) if changes else run

    def generate(self, text: str | Sequence[int], steps: int, **settings: Any) -> Iterator[Step]:
        """Continue `text` token by token, each choice laid open: `settings` are those of `generate`."""
        return generate(self, text, steps, **settings)
