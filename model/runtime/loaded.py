"""A loaded checkpoint: network, tokenizer and graph together, and what its texts and targets are."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from model.address.patch import EXAMPLE, Patch, PatchError, parse_patch
from model.arch.graph import Graph
from model.arch.network import Network
from model.arch.registry import architecture_of
from model.errors import TargetError, TextError
from model.ops.linear import View
from model.runtime.capture import Capture, parameter_views
from model.weights.tokenizer import Tokenizer

ID = "id:"
SEQUENCE = "sequence"  # the target that is the text's own next tokens
TOKEN_IDS = re.compile(r"ids:\d{1,7}(,\d{1,7})*")


class LoadedModel:
    """`name`, `directory` (None if it was never on disk), `architecture`, `config`, `net`, `tokenizer`, `graph`.

    One forward pass captures every hook point; several threads may run at once, each into its own capture.
    """

    def __init__(
        self,
        name: str,
        net: Network,
        tokenizer: Tokenizer,
        directory: Path | None = None,
        device: torch.device = torch.device("cpu"),  # noqa: B008  (a constant)
    ) -> None:
        self.name, self.net, self.tokenizer, self.directory = name, net.requires_grad_(False), tokenizer, directory
        self.config = net.config
        self.architecture = architecture_of(net.config)
        self.graph = Graph(net.config)
        self.capture = Capture(net.on(device))  # its network makes the runs; `net` itself stays where it is
        self.hooked = frozenset(self.capture.sites)
        self._parameters = parameter_views(net)
        self._pace = math.inf  # seconds a token, of the quickest pass so far
        self.original: LoadedModel = self  # of a what-if on the same weights: the model as it was loaded

    @cached_property
    def without_additions(self) -> Self:
        """The same weights, not copied, in a network whose blocks do not add: see `Config.adds`."""
        net = self.net.as_config(replace(self.config, adds=False))
        other = type(self)(self.name, net, self.tokenizer, self.directory, self.capture.net.W_E.device)
        other.original = self.original
        return other

    @cached_property
    def storages(self) -> frozenset[int]:
        """Where the weights lie in memory."""
        return frozenset(p.untyped_storage().data_ptr() for p in self.net.parameters())

    def sites_nbytes(self, n_pos: int) -> int:
        """Bytes of all sites that one pass over so many tokens captures, float32."""
        return sum(4 * prod(self.graph.shape(site, n_pos)) for site in self.hooked)

    @contextmanager
    def timing(self, n_pos: int) -> Iterator[None]:
        """Takes note of how long a pass over so many tokens takes."""
        started = time.perf_counter()
        yield
        self._pace = min(self._pace, (time.perf_counter() - started) / n_pos)

    def seconds(self, n_pos: int) -> float:
        """About how long a pass over so many tokens takes, by the quickest of this process; 0 before the first."""
        return 0.0 if math.isinf(self._pace) else self._pace * n_pos

    @property
    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.net.parameters())

    def parameter(self, name: str) -> Tensor:
        """A parameter under its site name and axes: a view of the network's own storage, never a copy."""
        return self._parameters[name]

    def encode(self, text: str, *, bos: bool = True) -> list[int]:
        """Token ids of `text`, the start token in front unless `bos` is off. Raises TextError if none or too many.

        `ids:464,3290` names the tokens themselves: a generated text may be spelled in tokens that the tokenizer would
        not choose for it.
        """
        most = self.config.n_ctx
        # No token is longer than some tens of bytes; this keeps a huge paste from being tokenised only to be refused.
        if len(text) > 64 * most:
            raise TextError(
                f"The text is {len(text):,} characters long, far over this model's {most:,} tokens.",
                "Shorten it: a token is about four characters of English.",
            )
        tokens = [self.tokenizer.start_id] * bos + self._own_ids(text)
        if not tokens:
            raise TextError("There is nothing to run: the text is empty and the start token is off.", "Type a word.")
        if len(tokens) > most:
            raise TextError(f"The text is {len(tokens):,} tokens long; this model reads at most {most:,}.")
        return tokens

    def _own_ids(self, text: str) -> list[int]:
        if not TOKEN_IDS.fullmatch(text):
            return self.tokenizer.encode(text)
        tokens = [int(n) for n in text.removeprefix("ids:").split(",")]
        if max(tokens) >= self.config.d_vocab:
            raise TextError(f"There is no token {max(tokens)}; ids run from 0 to {self.config.d_vocab - 1}.")
        return tokens

    def spelled(self, tokens: Sequence[int]) -> str:
        """What to write as a text to get these tokens (without a start token): the text if it reads back, else ids."""
        text = self.tokenizer.decode(tokens)
        reads_back = not TOKEN_IDS.fullmatch(text) and self._splits_into(text, tokens)
        return text if reads_back else "ids:" + ",".join(map(str, tokens))

    def _splits_into(self, text: str, tokens: Sequence[int]) -> bool:
        """Whether a text splits into just these tokens; one that a closed vocabulary cannot write does not."""
        try:
            return self.tokenizer.encode(text) == list(tokens)
        except TextError:
            return False

    def target_id(self, target: str | None) -> int | None:
        """The token id a reader's target names: a text of exactly one token, or `id:17`. None and "" give None."""
        if not target:
            return None
        if target.startswith(ID) and target[len(ID) :].isdecimal():
            token = int(target[len(ID) :])
            if token >= self.config.d_vocab:
                raise TargetError(f"There is no token {token}; ids run from 0 to {self.config.d_vocab - 1}.")
            return token
        ids = self.tokenizer.encode(target)
        if len(ids) == 1:
            return ids[0]
        shown = ", ".join(f"“{self.tokenizer.show(i)}”" for i in ids)
        raise TargetError(
            f"The target “{target}” is {len(ids)} tokens: {shown}. The loss needs one.",
            f"Its first is “{self.tokenizer.show(ids[0])}”.",
            tuple(self.target_name(i) for i in ids),
        )

    def target_name(self, token: int) -> str:
        """What to write as a target to get this token: its text where that reads back, else `id:17`."""
        text = self.tokenizer.text(token)
        if not text or text.startswith(ID) or text == SEQUENCE or token == self.tokenizer.start_id:
            return f"{ID}{token}"
        return text if self._splits_into(text, [token]) else f"{ID}{token}"

    def patch(self, text: str) -> Patch:
        """Read a change of a number and check that there is such a one to set. Raises PatchError, AddressError."""
        patch = parse_patch(text)
        site = patch.at.site
        if not self.graph[site].is_parameter and site not in self.hooked:
            raise PatchError(f"{site} is derived from other sites and cannot be set itself.", EXAMPLE)
        if isinstance(view := self.graph[site].op, View):
            whole = view.whole
            names = f"{site}[{','.join(view.letters)}] is {whole.site}[{','.join(whole.letters)}]."
            raise PatchError(f"{site} is another name for {whole.site}; set that.", names)
        return patch
