"""A loaded checkpoint: network, tokenizer and graph together, and how a text becomes a Run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from model.errors import TargetError, TextError
from model.gpt2 import GPT2, HookPoint
from model.graph import Graph
from model.run import SEQUENCE, Run
from model.tokenizer import Tokenizer

if TYPE_CHECKING:
    from model.generate import Step

ID = "id:"


class LanguageModel:
    """`name`, `directory` (None if it was never on disk), `config`, `net`, `tokenizer`, `graph`.

    One forward pass captures every hook point; several threads may run at once, each into its own capture.
    """

    def __init__(self, name: str, net: GPT2, tokenizer: Tokenizer, directory: Path | None = None) -> None:
        self.name, self.net, self.tokenizer, self.directory = name, net.requires_grad_(False), tokenizer, directory
        self.config = net.config
        self.graph = Graph(net.config)
        self._parameters = parameter_views(net)
        self._sink = threading.local()
        for site, module in net.named_modules():
            if isinstance(module, HookPoint):
                module.register_forward_hook(partial(self._capture, site))

    def _capture(self, site: str, _module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        captured: dict[str, Tensor] | None = getattr(self._sink, "captured", None)
        if captured is None:
            return
        if torch.is_grad_enabled() and not output.requires_grad:
            output.requires_grad_()  # where the tape begins: the weights need no gradient of their own
        captured[site] = output

    @property
    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.net.parameters())

    def parameter(self, name: str) -> Tensor:
        """A parameter under its site name and axes: a view of the network's own storage, never a copy."""
        return self._parameters[name]

    def encode(self, text: str, *, bos: bool = True) -> list[int]:
        """Token ids of `text`, the start token in front unless `bos` is off. Raises TextError if none or too many."""
        most = self.config.n_ctx
        # No token is longer than some tens of bytes; this keeps a huge paste from being tokenised only to be refused.
        if len(text) > 64 * most:
            raise TextError(f"The text is {len(text):,} characters long, far over this model's {most:,} tokens.")
        tokens = [self.tokenizer.start_id] * bos + self.tokenizer.encode(text)
        if not tokens:
            raise TextError("There is nothing to run: the text is empty and the start token is off.", "Type a word.")
        if len(tokens) > most:
            raise TextError(f"The text is {len(tokens):,} tokens long; this model reads at most {most:,}.")
        return tokens

    def target_id(self, target: str | None) -> int | None:
        """The token id a reader's target names: a text of exactly one token, or `id:17`. None and "" give None."""
        if not target:
            return None
        if target.startswith(ID) and target[len(ID) :].isdecimal():
            token = int(target[len(ID) :])
            if token >= self.tokenizer.n_vocab:
                raise TargetError(f"There is no token {token}; ids run from 0 to {self.tokenizer.n_vocab - 1}.")
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
        readable = text and not text.startswith(ID) and text != SEQUENCE and token != self.tokenizer.start_id
        if readable and self.tokenizer.encode(text) == [token]:  # type: ignore[arg-type]
            return text  # type: ignore[return-value]
        return f"{ID}{token}"

    def run(self, text: str, target: str | None = None, *, bos: bool = True) -> Run:
        """Run the network on `text`, capturing every site.

        `target` is one token (its −log p at the last position is the loss), None for the model's own first guess, or
        "sequence" for the mean loss over the text's own next tokens.
        """
        tokens = self.encode(text, bos=bos)
        is_sequence = target == SEQUENCE
        if is_sequence and len(tokens) < 2:
            raise TargetError("The loss over the sequence needs a text of at least two tokens.", "Type another word.")
        token = None if is_sequence else self.target_id(target)
        return Run(self, text, tokens, self.capture(tokens), bos=bos, target=token, is_sequence=is_sequence)

    def generate(self, text: str | Sequence[int], steps: int, **settings: Any) -> Iterator[Step]:
        """Continue `text` token by token, each choice laid open: `settings` are those of `model.generate.generate`."""
        from model.generate import generate

        return generate(self, text, steps, **settings)

    def capture(self, tokens: list[int]) -> dict[str, Tensor]:
        """Every hook point's output for these tokens, the batch axis taken off."""
        with torch.no_grad():
            return {site: output[0] for site, output in self.tape(tokens).items()}

    def tape(self, tokens: list[int]) -> dict[str, Tensor]:
        """Every hook point's output with its batch axis; on autograd's tape where grad is enabled."""
        captured: dict[str, Tensor] = {}
        self._sink.captured = captured
        try:
            self.net(torch.tensor([tokens]))
        finally:
            self._sink.captured = None
        return captured


def parameter_views(net: GPT2) -> dict[str, Tensor]:
    """Parameters under the graph's names and axes. Attention's are stored side by side: [d_model, 3·d_model]."""
    c = net.config
    views: dict[str, Tensor] = {}
    for name, parameter in net.named_parameters():
        p, attn = parameter.detach(), name.rsplit(".", 1)[0]
        if name.endswith("W_QKV"):
            for letter, part in zip("QKV", p.split(c.d_model, dim=1), strict=True):
                views[f"{attn}.W_{letter}"] = part.view(c.d_model, c.n_head, c.d_head).permute(1, 0, 2)
        elif name.endswith("b_QKV"):
            for letter, part in zip("QKV", p.split(c.d_model), strict=True):
                views[f"{attn}.b_{letter}"] = part.view(c.n_head, c.d_head)
        elif name.endswith("W_O"):
            views[name] = p.view(c.n_head, c.d_head, c.d_model)
        else:
            views[name] = p
    return views
